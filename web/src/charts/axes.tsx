/** Axes: grid lines with their numbers, and titles. */

import type { Scale } from "./scale";
import { textWidth } from "./text";

interface Props {
  scale: Scale;
  /** Where the lines begin and end, across the axis. */
  from: number;
  to: number;
  /** Writes a tick. */
  text: (value: number) => string;
}

interface XProps extends Props {
  title?: string;
  /** The right edge, which titles end at and numbers stay within. */
  right: number;
}

/** The widest tick in pixels: room that a vertical axis needs on its left. */
export function axisWidth(scale: Scale, text: (value: number) => string): number {
  return Math.ceil(Math.max(0, ...scale.ticks.map((tick) => textWidth(text(tick))))) + 10;
}

/** Horizontal lines with numbers on their left. */
export function YAxis({ scale, from, to, text }: Props) {
  return (
    <g class="axis">
      {scale.ticks.map((tick) => (
        <g key={tick}>
          <line x1={from} x2={to} y1={scale(tick)} y2={scale(tick)} />
          <text x={from - 8} y={scale(tick)} text-anchor="end" dominant-baseline="central">
            {text(tick)}
          </text>
        </g>
      ))}
    </g>
  );
}

/** Numbers below, with vertical lines if `from` and `to` differ, and a title below them on the right. */
export function XAxis({ scale, from, to, text, title, right }: XProps) {
  let free = 0;
  const shown = scale.ticks.flatMap((tick) => {
    const half = textWidth(text(tick)) / 2;
    const at = Math.max(half, Math.min(scale(tick), right - half));
    if (at - half < free) return [];
    free = at + half + 8;
    return [{ tick, at }];
  });
  return (
    <g class="axis">
      {shown.map(({ tick, at }) => (
        <g key={tick}>
          <line x1={scale(tick)} x2={scale(tick)} y1={from} y2={from === to ? to + 4 : to} />
          <text x={at} y={Math.max(from, to) + 16} text-anchor="middle">
            {text(tick)}
          </text>
        </g>
      ))}
      {title && (
        <text x={right} y={Math.max(from, to) + 32} text-anchor="end">
          {title}
        </text>
      )}
    </g>
  );
}
