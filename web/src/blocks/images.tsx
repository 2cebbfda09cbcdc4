/** Activation maps: the channels of a convolution's output as small grey images, by module. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { greyPixels } from "../charts/pixels";
import { Go } from "../go";
import type { ActivationMap } from "../payload";
import type { BlockProps } from ".";
import "./images.css";

/** The side of an image on the page, in pixels; a small map is drawn larger than it is. */
const SIDE = 72;

function Channel({ map, index }: { map: ActivationMap; index: number }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const { width, height } = map;
  useLayoutEffect(() => {
    const pixels = greyPixels(map.channels[index]!, width * height);
    ref.current!.getContext("2d")!.putImageData(new ImageData(pixels, width, height), 0, 0);
  }, [map, index]);
  const scale = SIDE / Math.max(width, height);
  const size = { width: `${Math.round(width * scale)}px`, height: `${Math.round(height * scale)}px` };
  const number = map.numbers[index];
  return (
    <li>
      <canvas
        ref={ref}
        width={width}
        height={height}
        style={size}
        role="img"
        aria-label={`${map.module}, channel ${number}`}
      />
      <span>{number}</span>
    </li>
  );
}

/** The activation maps of a block. */
export function ImagesBlock({ block, page }: BlockProps<"images">) {
  return (
    <div class="maps">
      {block.images.map((map) => (
        <section key={map.module}>
          <h3>
            <Go page={page} to="modules" params={{ module: map.module }}>
              {map.module || "(root)"}
            </Go>
            <span>
              {map.class_name} · {map.shape}
            </span>
          </h3>
          <ul>
            {map.channels.map((_, i) => (
              <Channel key={i} map={map} index={i} />
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
