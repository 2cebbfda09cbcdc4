/** Edges of a level: curves with arrow heads, and labels where there is room. */

import { textWidth } from "../charts/text";
import { format } from "../format";
import type { Flow } from "../payload";
import { GAP, type Layout, type Point, type Size } from "./layout";
import { flowText, type Edge } from "./level";

const HEAD = 5;
const LINE = 14; // the height of a label
const BESIDE = 6;
const SPOTS = 24; // places that are tried per label on each side
const STRIP = 32;
const MANY = 8; // edges into a node from which on their labels would not be told apart

/** How far edges that lead back reach beside the boxes. */
export const BACK = 32;

/** A smooth curve through points, downwards or to the right. */
export function curve(points: Point[], sideways: boolean): string {
  return points
    .map(({ x, y }, at) => {
      const before = points[at - 1];
      if (!before) return `M${x} ${y}`;
      if (before.x === x || before.y === y) return `L${x} ${y}`;
      const [midX, midY] = [(before.x + x) / 2, (before.y + y) / 2];
      return sideways ? `C${midX} ${before.y} ${midX} ${y} ${x} ${y}` : `C${before.x} ${midY} ${x} ${midY} ${x} ${y}`;
    })
    .join("");
}

const head = ({ x, y }: Point, sideways: boolean) =>
  sideways
    ? `M${x - HEAD} ${y - HEAD * 0.7}L${x} ${y}L${x - HEAD} ${y + HEAD * 0.7}Z`
    : `M${x - HEAD * 0.7} ${y - HEAD}L${x} ${y}L${x + HEAD * 0.7} ${y - HEAD}Z`;

/** An edge with an arrow head; a wide invisible line makes it easy to hit. */
export function EdgeLine({
  points,
  sideways,
  index,
  state,
}: {
  points: Point[];
  sideways: boolean;
  index: number;
  state: string;
}) {
  const path = curve(points, sideways);
  return (
    <g class={`graph-edge ${state}`} data-i={index}>
      <path class="hit" d={path} data-screen="" />
      <path class="line" d={path} />
      <path class="head" d={head(points.at(-1)!, sideways)} />
    </g>
  );
}

interface AgainProps {
  from: Point;
  to: Point;
  sizes: [Size, Size];
  sideways: boolean;
  index: number;
  state: string;
}

/** An edge that leads back, to the next turn of a run: a dashed curve on the left of the boxes, or above them. */
export function AgainLine({ from, to, sizes: [one, two], sideways, index, state }: AgainProps) {
  const start = sideways ? { x: from.x, y: from.y - one.height / 2 } : { x: from.x - one.width / 2, y: from.y };
  const end = sideways ? { x: to.x, y: to.y - two.height / 2 } : { x: to.x - two.width / 2, y: to.y };
  const out = Math.min(sideways ? start.y : start.x, sideways ? end.y : end.x) - BACK;
  const path = sideways
    ? `M${start.x} ${start.y}C${start.x} ${out} ${end.x} ${out} ${end.x} ${end.y}`
    : `M${start.x} ${start.y}C${out} ${start.y} ${out} ${end.y} ${end.x} ${end.y}`;
  return (
    <g class={`graph-edge again ${state}`} data-i={index}>
      <path class="hit" d={path} data-screen="" />
      <path class="line" d={path} />
      <path class="head" d={head(end, !sideways)} />
    </g>
  );
}

/** Text at the left end of its base line. */
export interface Label extends Point {
  text: string;
  /** Index into the level's flows. */
  flow: number;
}

/** A label per tensor beside an edge that carries it, where it covers nothing; with its bytes if there is room. */
export function labelsOf(flows: Flow[], edges: Edge[], layout: Layout, sizes: Size[], sideways: boolean): Label[] {
  const room = new Room();
  layout.nodes.forEach(({ x, y }, at) =>
    room.take(boxOf(x - sizes[at]!.width / 2, y - sizes[at]!.height / 2, sizes[at]!)),
  );
  for (const points of layout.edges)
    for (const { x, y } of samples(points, sideways, 20))
      room.take(boxOf(x - BESIDE, y, { width: 2 * BESIDE, height: 0 }));
  const into: number[] = [];
  for (const { target } of edges) into[target] = (into[target] ?? 0) + 1;
  const labels: Label[] = [];
  const done = new Set<number>();
  edges.forEach((edge, at) => {
    if (into[edge.target]! > MANY) return;
    const points = layout.edges[at]!;
    const spots = samples(points, sideways, 8)
      .sort((one, two) => middle(one) - middle(two))
      .slice(0, SPOTS);
    for (const flow of edge.flows) {
      const { bytes } = flows[flow]!;
      const short = flowText(flows[flow]!);
      for (const text of bytes === null ? [short] : [`${short}  ${format(bytes, "bytes")}`, short]) {
        if (done.has(flow)) break;
        const width = textWidth(text);
        // Right of the edge if possible, so that a label between two edges belongs to the left one.
        const beside = [BESIDE, -BESIDE - width].flatMap((shift) => spots.map(({ x, y }) => ({ x: x + shift, y })));
        const fork = { x: points[0]!.x - width / 2, y: points[0]!.y + GAP.along - LINE / 2 - 2 };
        const box = [...beside, fork]
          .map(({ x, y }) => boxOf(x, y - LINE / 2, { width, height: LINE }))
          .find((each) => room.isFree(each));
        if (!box) continue;
        done.add(flow);
        room.take(box);
        labels.push({ x: box.left, y: box.bottom - 3, text, flow });
      }
    }
  });
  return labels;
}

/** What is already taken in a picture, in strips, so that looking a place up is quick. */
class Room {
  private strips = new Map<number, Box[]>();

  private *around({ top, bottom }: Box): Generator<number> {
    for (let strip = Math.floor(top / STRIP); strip <= Math.floor(bottom / STRIP); strip++) yield strip;
  }

  take(box: Box): void {
    for (const strip of this.around(box)) {
      const boxes = this.strips.get(strip);
      if (boxes) boxes.push(box);
      else this.strips.set(strip, [box]);
    }
  }

  isFree(box: Box): boolean {
    if (box.left < 0) return false;
    for (const strip of this.around(box))
      if (this.strips.get(strip)?.some((other) => overlap(box, other))) return false;
    return true;
  }
}

/** Points on the curve through `points`: `count` and one on each piece, with how far each is along its piece. */
function samples(points: Point[], sideways: boolean, count: number): (Point & { t: number })[] {
  return points.slice(1).flatMap((to, at) => {
    const { x, y } = points[at]!;
    return Array.from({ length: count + 1 }, (_, step) => {
      const t = step / count;
      const eased = t * t * (3 - 2 * t);
      return { x: x + (to.x - x) * (sideways ? t : eased), y: y + (to.y - y) * (sideways ? eased : t), t };
    });
  });
}

const middle = ({ t }: { t: number }) => Math.abs(t - 0.5);
const boxOf = (x: number, y: number, { width, height }: Size) => ({
  left: x,
  top: y,
  right: x + width,
  bottom: y + height,
});
type Box = ReturnType<typeof boxOf>;
const overlap = (one: Box, two: Box) =>
  one.left < two.right && two.left < one.right && one.top < two.bottom && two.top < one.bottom;
