/** A time line: the period that is shown of it, and the spans in that. */

import type { Spans } from "../payload";
import { extent } from "./scale";

/** From and to, in seconds. */
export type Period = [number, number];

/** A period of this length from `start` on, moved so that it lies inside the whole. */
export function placed(start: number, length: number, whole: Period): Period {
  const from = Math.max(whole[0], Math.min(start, whole[1] - length));
  return [from, from + length];
}

/** A period `by` times as long, in which `around` (its middle, if it is not given) stays in place. */
export function zoomed([from, to]: Period, by: number, whole: Period, around = (from + to) / 2): Period {
  const length = Math.min((to - from) * by, whole[1] - whole[0]);
  return placed(around - ((around - from) * length) / (to - from), length, whole);
}

/** The spans in a period that are at least a pixel long, and the number of those that are not. */
export function visible(spans: Spans, [from, to]: Period, width: number): { drawn: number[]; short: number } {
  const drawn: number[] = [];
  let short = 0;
  const pixel = (to - from) / width;
  spans.start_s.forEach((start, i) => {
    const length = spans.duration_s[i]!;
    if (start >= to || start + length <= from) return;
    if (length >= pixel) drawn.push(i);
    else short++;
  });
  return { drawn, short };
}

/** The span that an arrow key leads to, among those drawn: around, inside, or beside it. */
export function beside(depth: number[], drawn: number[], from: number, key: string): number | null {
  const by = key === "ArrowUp" || key === "ArrowLeft" ? -1 : 1;
  const level = depth[from]! + (key === "ArrowUp" ? -1 : key === "ArrowDown" ? 1 : 0);
  for (let at = drawn.indexOf(from) + by; at >= 0 && at < drawn.length; at += by) {
    const span = drawn[at]!;
    if (depth[span] === level) return span;
    if (key === "ArrowDown" && depth[span]! <= depth[from]!) return null;
  }
  return null;
}

/** The time from the first start to the last end. */
export function wholeOf(spans: Spans): Period {
  const [from] = extent(spans.start_s) ?? [0];
  const [, to] = extent(spans.start_s.map((start, i) => start + spans.duration_s[i]!)) ?? [0, 1];
  return [from, to > from ? to : from + 1];
}
