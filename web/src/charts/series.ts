/** Series over an axis: their paths, and what a position is part of. */

import type { Stage } from "../payload";
import { extent, type Scale } from "./scale";

const round = (value: number) => Math.round(value * 10) / 10;

/** The stage that a position belongs to. */
export function stageAt(stages: Stage[], at: number): string | undefined {
  return stages.find((stage) => stage.first <= at && at <= stage.last)?.name;
}

/** The outline of steps above a base line; where several fall on a pixel, the largest counts. */
export function stepPath(values: number[], x: Scale, y: Scale): string {
  let path = `M${x(0)} ${y(0)}`;
  for (let i = 0; i < values.length;) {
    const from = x(i);
    let most = values[i++]!;
    while (i < values.length && x(i) < from + 1) most = Math.max(most, values[i++]!);
    path += `V${round(y(most))}H${round(x(i))}`;
  }
  return `${path}V${y(0)}Z`;
}

/** Whether numbers grow by factors, as 1, 2, 4, 8 do: then their axis is logarithmic too. */
export function geometric(values: number[]): boolean {
  const range = extent(values);
  return (
    !!range && range[0] > 0 && range[1] / range[0] >= 8 && values.length <= 3 * Math.log2(range[1] / range[0]) + 2
  );
}

/** The path of a line through known values; unknown ones leave a gap. */
export function linePath(points: ([number, number] | null)[]): string {
  let path = "";
  let pen = "M";
  for (const point of points) {
    if (point) path += `${pen}${point.map(round).join(" ")}`;
    pen = point ? "L" : "M";
  }
  return path;
}
