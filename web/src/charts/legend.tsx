/** Legends: what colours and shapes stand for, drawn in the chart so that a saved picture has them too. */

import { SIZE, textWidth } from "./text";

export interface LegendItem {
  name: string;
  colour: string;
  /** A path around the origin, within 5 pixels; a square without it. */
  shape?: string;
}

const ROW = 20;

/** Where items stand, left to right in rows of a width. */
export function flow(widths: number[], width: number): { x: number; row: number }[] {
  let x = 0;
  let row = 0;
  return widths.map((each) => {
    if (x > 0 && x + each > width) [x, row] = [0, row + 1];
    const place = { x, row };
    x += each;
    return place;
  });
}

const places = (items: LegendItem[], width: number) =>
  flow(
    items.map((item) => textWidth(item.name) + SIZE + 22),
    width,
  );

/** The height of a legend in pixels. */
export function legendHeight(items: LegendItem[], width: number): number {
  return items.length ? (places(items, width).at(-1)!.row + 1) * ROW + 8 : 0;
}

/** A legend at the top left of the chart, moved by `x` and `y`. */
export function Legend({
  items,
  width,
  x = 0,
  y = 0,
}: {
  items: LegendItem[];
  width: number;
  x?: number;
  y?: number;
}) {
  const at = places(items, width);
  return (
    <g class="legend">
      {items.map((item, i) => (
        <g key={item.name} transform={`translate(${x + at[i]!.x + 6} ${y + at[i]!.row * ROW + 8})`}>
          <path d={item.shape ?? SQUARE} fill={item.colour} />
          <text x={10} dominant-baseline="central">
            {item.name}
          </text>
        </g>
      ))}
    </g>
  );
}

const SQUARE = "M-5 -5H5V5H-5Z";

/** Shapes for points, so that colour is not the only sign. */
export const SHAPES = {
  circle: "M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0Z",
  square: "M-4.4 -4.4H4.4V4.4H-4.4Z",
  triangle: "M0 -5.8L5.4 4.2H-5.4Z",
  diamond: "M0 -6.2L6.2 0L0 6.2L-6.2 0Z",
  cross: "M-1.8 -5.4H1.8V-1.8H5.4V1.8H1.8V5.4H-1.8V1.8H-5.4V-1.8H-1.8Z",
};
