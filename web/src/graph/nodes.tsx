/** Boxes of a level: how large they are and what they show. */

import { fit, textWidth } from "../charts/text";
import { format } from "../format";
import type { GraphNode } from "../payload";
import type { Point, Size } from "./layout";
import { shapeText } from "./level";

const HEIGHT = 44;
const PAD = 10;
const MARK = 14; // room for the mark of a module that opens
const WIDEST = 240;
const BOLD = 1.14; // how much wider bold text is

/** The second line of a box: the class and the shape of the result. */
export function lineOf(node: GraphNode): string {
  return [node.detail, shapeText(node.shape)].filter(Boolean).join(" · ");
}

/** The first line of a box: the name, with the number that the node stands for. */
export function nameOf(node: GraphNode): string {
  return (node.run ?? 1) > 1 ? `${node.name} ×${node.run}` : node.name;
}

/** The size of a node's box; `opens` as in `NodeBox`. */
export function sizeOf(node: GraphNode, seconds: number | null | undefined, opens: boolean): Size {
  const time = seconds == null ? 0 : textWidth(format(seconds, "seconds")) + 16;
  const text = Math.max(textWidth(nameOf(node)) * BOLD + time, textWidth(lineOf(node)) + (opens ? MARK : 0));
  return { width: Math.ceil(Math.min(WIDEST, Math.max(72, text + 2 * PAD))), height: HEIGHT };
}

interface Props {
  node: GraphNode;
  index: number;
  at: Point;
  size: Size;
  seconds: number | null | undefined;
  /** Share of the longest time of the level. */
  share: number;
  /** Whether it has a level of its own. */
  opens: boolean;
  state: string;
  label: string;
  tab: boolean;
}

/** A node as a box with its name, class and shape; a bar at its bottom is its time. */
export function NodeBox({ node, index, at, size, seconds, share, opens, state, label, tab }: Props) {
  const { width, height } = size;
  const time = seconds == null ? "" : format(seconds, "seconds");
  const round = node.kind === "module" || node.kind === "op" ? 4 : height / 2;
  const run = (node.run ?? 1) > 1;
  const room = width - 2 * PAD;
  return (
    <g
      class={`graph-node ${node.kind} ${state}`}
      transform={`translate(${at.x - width / 2} ${at.y - height / 2})`}
      data-i={index}
      role="button"
      aria-label={label}
      aria-pressed={state.includes("picked")}
      tabindex={tab ? 0 : -1}
    >
      {run && <rect class="behind" x={4} y={4} width={width} height={height} rx={round} />}
      <rect class="box" width={width} height={height} rx={round} />
      <text class="name" x={PAD} y={18}>
        {fit(nameOf(node), (room - (time ? textWidth(time) + 8 : 0)) / BOLD)}
      </text>
      {time && (
        <text class="quiet" x={width - PAD} y={18} text-anchor="end">
          {time}
        </text>
      )}
      <text class="quiet" x={PAD} y={33}>
        {fit(lineOf(node), room - (opens ? MARK : 0))}
      </text>
      {opens && <path class="opens" d={`M${width - 14} ${height - 15}l4 4l-4 4`} />}
      {share > 0 && (
        <rect class="share" x={1} y={height - 4} width={Math.max(1, share * (width - 2))} height={3} rx={1.5} />
      )}
    </g>
  );
}
