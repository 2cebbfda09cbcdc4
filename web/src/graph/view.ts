/** What part of a picture is shown: zooming and panning. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Size } from "./layout";

/** The picture's origin in the frame, and its scale. */
export interface Shown {
  x: number;
  y: number;
  scale: number;
}

const LEAST = 0.1;
const MOST = 2;
/** Below this scale the text of a node is hard to read. */
export const READABLE = 0.7;
const DRAGGED = 4; // pixels from which on a press is not a click

/** The whole picture in the frame, centred; never enlarged, and not smaller than `least`, then from its top. */
export function fitted(picture: Size, frame: Size, least = LEAST): Shown {
  const scale = Math.max(least, Math.min(1, frame.width / picture.width, frame.height / picture.height));
  const top = Math.max(0, (frame.height - picture.height * scale) / 2);
  return { x: (frame.width - picture.width * scale) / 2, y: top, scale };
}

/** Zoomed by a factor, with the point at (x, y) of the frame staying where it is. */
export function zoomed(shown: Shown, factor: number, x: number, y: number): Shown {
  const scale = Math.max(LEAST, Math.min(MOST, shown.scale * factor));
  const real = scale / shown.scale;
  return { x: x - (x - shown.x) * real, y: y - (y - shown.y) * real, scale };
}

/** The part shown, and what changes it: `dragged` is whether the last press moved the picture. */
export function useView(picture: Size, frame: Size) {
  const first = useMemo(() => fitted(picture, frame, READABLE), [picture, frame.width, frame.height]);
  const [shown, setShown] = useState(first);
  useEffect(() => setShown(first), [first]);
  const press = useRef({ id: -1, x: 0, y: 0, from: first, moved: false });
  const centre = [frame.width / 2, frame.height / 2] as const;
  return {
    shown,
    dragged: () => press.current.moved,
    zoom: (factor: number) => setShown(zoomed(shown, factor, ...centre)),
    fit: () => setShown(fitted(picture, frame)),
    reset: () => setShown(first),
    /** Moves the picture just so far that a node is in the frame. */
    reveal: (x: number, y: number, { width, height }: Size) => {
      const shift = (at: number, half: number, size: number) =>
        Math.max(half - at, 0) || Math.min(size - half - at, 0);
      const [dx, dy] = [
        shift(shown.x + x * shown.scale, (width / 2) * shown.scale + 8, frame.width),
        shift(shown.y + y * shown.scale, (height / 2) * shown.scale + 8, frame.height),
      ];
      if (dx || dy) setShown({ ...shown, x: shown.x + dx, y: shown.y + dy });
    },
    wheel: (event: WheelEvent & { currentTarget: Element }) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault(); // the page does not zoom with it
      const at = event.currentTarget.getBoundingClientRect();
      setShown(zoomed(shown, Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top));
    },
    drag: {
      onPointerDown: (event: PointerEvent) => {
        if (event.button === 0)
          press.current = { id: event.pointerId, x: event.clientX, y: event.clientY, from: shown, moved: false };
      },
      onPointerMove: (event: PointerEvent & { currentTarget: Element }) => {
        const { id, x, y, from, moved } = press.current;
        if (event.pointerId !== id || !event.buttons) return;
        const [dx, dy] = [event.clientX - x, event.clientY - y];
        if (!moved && Math.hypot(dx, dy) < DRAGGED) return;
        if (!moved) event.currentTarget.setPointerCapture(id);
        press.current.moved = true;
        setShown({ ...from, x: from.x + dx, y: from.y + dy });
      },
    },
  };
}
