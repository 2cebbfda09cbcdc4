/** How arrow keys move in the picture of a level. */

import type { Point } from "./layout";
import type { Edge } from "./level";

/** The node that an arrow key leads to: along an edge, or to the one beside it. */
export function neighbour(
  edges: Edge[],
  points: Point[],
  node: number,
  key: string,
  sideways: boolean,
): number | undefined {
  const [back, on] = sideways ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
  const across = (at: number) => (sideways ? points[at]!.y : points[at]!.x);
  const along = (at: number) => (sideways ? points[at]!.x : points[at]!.y);
  const distance = (at: number) => Math.abs(across(at) - across(node)) + Math.abs(along(at) - along(node)) / 1000;
  const nearest = (nodes: number[]) => nodes.sort((one, two) => distance(one) - distance(two))[0];
  if (key === on) return nearest(edges.filter(({ source }) => source === node).map(({ target }) => target));
  if (key === back) return nearest(edges.filter(({ target }) => target === node).map(({ source }) => source));
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  const beside = points.flatMap((_, at) =>
    along(at) === along(node) && sign * (across(at) - across(node)) > 0 ? [at] : [],
  );
  return nearest(beside);
}
