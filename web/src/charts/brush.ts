/** Selecting a period by dragging. */

import { useRef, useState } from "preact/hooks";
import type { Scale } from "./scale";
import type { Period } from "./timeline";

/** Shorter movements than this, in pixels, are clicks. */
const CLICK = 4;

/** The period under the pointer's drag, null if there is none, and the handler that starts one. */
export function useBrush(x: Scale, select: (period: Period) => void) {
  const [brush, setBrush] = useState<Period | null>(null);
  const dragged = useRef(false);
  const onMouseDown = (start: MouseEvent) => {
    const left = (start.currentTarget as Element).getBoundingClientRect().left;
    const period = (event: MouseEvent): Period => {
      const ends = [start, event].map((one) => x.invert(one.clientX - left));
      return [Math.min(...ends), Math.max(...ends)];
    };
    dragged.current = false;
    const move = (event: MouseEvent) => {
      dragged.current ||= Math.abs(event.clientX - start.clientX) >= CLICK;
      if (dragged.current) setBrush(period(event));
    };
    const end = (event: MouseEvent) => {
      removeEventListener("mousemove", move);
      setBrush(null);
      if (dragged.current) select(period(event));
    };
    addEventListener("mousemove", move);
    addEventListener("mouseup", end, { once: true });
  };
  return { brush, dragged, onMouseDown };
}
