/** The picture of a level: boxes and curves, with zoom, pan and keys that follow the edges. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { ChartFrame, tipText, useBox, type Tip } from "../charts/frame";
import { textWidth } from "../charts/text";
import type { LevelProps } from "../blocks/graph";
import { format } from "../format";
import { AgainLine, BACK, EdgeLine, labelsOf } from "./edges";
import { neighbour } from "./keys";
import { layout, type Size } from "./layout";
import { figures, flowText, reach, type Edge } from "./level";
import { NodeBox, lineOf, nameOf, sizeOf } from "./nodes";
import { READABLE, fitted, useView } from "./view";

const TALLEST = 960;
const MARGIN = 24;
const KEYS = "Arrow keys follow the edges, Enter opens a module, Backspace goes up.";

/** Whether the reader has used the keyboard in a picture: then the next one takes the focus. */
let keyed = false;

/** The layout that can be shown larger in the frame: from top to bottom, or from left to right. */
function arranged(sizes: Size[], edges: Edge[], frame: Size) {
  const pairs = edges.map(({ source, target }): [number, number] => [source, target]);
  const down = layout(sizes, pairs);
  const right = layout(sizes, pairs, true);
  const sideways = fitted(right, frame).scale > fitted(down, frame).scale;
  return { sideways, ...(sideways ? right : down) };
}

export function Drawing(props: LevelProps) {
  const { level, at, path, edges, again, picked, pick, opens } = props;
  const box = useBox();
  const time = figures(level.time_s, at);
  const longest = Math.max(0, ...time.map((each) => each ?? 0));
  const sizes = useMemo(
    () => level.nodes.map((node, index) => sizeOf(node, time[index], !!opens(index))),
    [level, at],
  );
  const wide = box.width || 800;
  const picture = useMemo(
    () => arranged(sizes, edges, { width: wide - 2 * MARGIN, height: TALLEST }),
    [sizes, edges, wide],
  );
  const back = again.length ? BACK : 0;
  const [left, top] = picture.sideways ? [MARGIN, MARGIN + back] : [MARGIN + back, MARGIN];
  const labels = useMemo(() => labelsOf(level.flows, edges, picture, sizes, picture.sideways), [level, picture]);
  const whole = useMemo(() => {
    const right = Math.max(picture.width, ...labels.map(({ x, text }) => x + textWidth(text)));
    return { width: left + right + MARGIN, height: top + picture.height + MARGIN };
  }, [picture, labels]);
  const { scale: readable } = fitted(whole, { width: wide, height: TALLEST }, READABLE);
  const height = Math.round(Math.min(TALLEST, Math.max(160, whole.height * readable)));
  const view = useView(whole, { width: wide, height });
  const lines = [...edges, ...again];
  const lit = useMemo(() => litBy(props), [level, edges, picked.node, picked.edge]);
  const dim = (on: boolean) => (!lit ? "" : on ? "on" : "off");
  const litFlow = (flow: number) => lines.some((edge) => edge.flows.includes(flow) && !!lit?.edges.has(edge));

  const count = level.nodes.length;
  const tip = (mark: number): Tip => (mark < count ? nodeTip(props, mark) : edgeTip(props, lines[mark - count]!));
  const choose = (mark: number, event: MouseEvent | KeyboardEvent) => {
    if (event instanceof MouseEvent && view.dragged()) return;
    const open = mark < count ? opens(mark) : undefined;
    const wants = event instanceof KeyboardEvent ? event.key === "Enter" : event.detail === 2;
    if (open && wants) return open();
    pick(mark < count ? { node: mark } : { edge: lines[mark - count]! });
  };
  const move = (mark: number, key: string) => {
    const next =
      mark < count ? neighbour(edges, picture.nodes, mark, key, picture.sideways) : lines[mark - count]!.target;
    if (next !== undefined) view.reveal(picture.nodes[next]!.x + left, picture.nodes[next]!.y + top, sizes[next]!);
    return next;
  };
  const press = (event: KeyboardEvent) => {
    const does: Record<string, (() => void) | undefined> = {
      Backspace: props.up,
      Escape: lit ? () => pick({}) : undefined,
      "+": () => view.zoom(1.25),
      "-": () => view.zoom(0.8),
      "0": view.fit,
    };
    const act = event.ctrlKey || event.metaKey ? undefined : does[event.key];
    act?.();
    return !!act;
  };
  // After a step to another level by key, the focus is on its first node, as the one before is gone.
  const place = useRef<SVGGElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body && keyed)
      place.current?.querySelector<SVGElement>(`[data-i="${first}"]`)?.focus();
  }, [path, !!box.width]);
  const first = picked.node ?? picked.edge?.source ?? 0;
  const { x, y, scale } = view.shown;
  return (
    <ChartFrame
      box={box}
      height={height}
      name={`graph ${path || level.class_name}`}
      label={`Data flow in ${path || level.class_name}: ${count} nodes. ${KEYS}`}
      class="graph-drawing"
      tip={tip}
      pick={choose}
      move={move}
      press={(event) => {
        keyed = true;
        return press(event);
      }}
      svg={{ onWheel: view.wheel }}
      controls={
        <span class="graph-zoom">
          <button type="button" title="Zoom out (−)" onClick={() => view.zoom(0.8)}>
            −
          </button>
          <button type="button" title="Zoom in (+, or Ctrl and the wheel)" onClick={() => view.zoom(1.25)}>
            +
          </button>
          <button type="button" title="Show all of it (0)" onClick={view.fit}>
            Fit
          </button>
        </span>
      }
    >
      <g ref={place} {...view.drag}>
        <rect class="ground" width={wide} height={height} onClick={() => view.dragged() || (lit && pick({}))} />
        <g transform={`translate(${x + left * scale} ${y + top * scale}) scale(${scale})`}>
          {edges.map((edge, index) => (
            <EdgeLine
              key={index}
              index={count + index}
              points={picture.edges[index]!}
              sideways={picture.sideways}
              state={dim(!!lit?.edges.has(edge))}
            />
          ))}
          {again.map((edge, index) => (
            <AgainLine
              key={index}
              index={count + edges.length + index}
              from={picture.nodes[edge.source]!}
              to={picture.nodes[edge.target]!}
              sizes={[sizes[edge.source]!, sizes[edge.target]!]}
              sideways={picture.sideways}
              state={dim(!!lit?.edges.has(edge))}
            />
          ))}
          {labels.map((label) => (
            <text key={label.flow} class={`graph-label ${dim(litFlow(label.flow))}`} x={label.x} y={label.y}>
              {label.text}
            </text>
          ))}
          {level.nodes.map((node, index) => (
            <NodeBox
              key={index}
              node={node}
              index={index}
              at={picture.nodes[index]!}
              size={sizes[index]!}
              seconds={time[index]}
              share={longest ? (time[index] ?? 0) / longest : 0}
              opens={!!opens(index)}
              state={`${dim(!!lit?.nodes.has(index))} ${picked.node === index ? "picked" : ""}`}
              label={tipText(nodeTip(props, index))}
              tab={index === first}
            />
          ))}
        </g>
      </g>
    </ChartFrame>
  );
}

/** What belongs to the selection: all that is up- and downstream of a node, or all readers of a tensor; else null. */
function litBy({ edges, again, picked }: LevelProps): { nodes: Set<number>; edges: Set<Edge> } | null {
  if (picked.node !== undefined) {
    const { up, down } = reach(edges, picked.node);
    const on = edges.filter(({ source, target }) => up.has(target) || down.has(source));
    return { nodes: new Set([...up, ...down]), edges: new Set(on) };
  }
  if (!picked.edge) return null;
  const on = [...edges, ...again].filter((edge) => edge.flows.some((flow) => picked.edge!.flows.includes(flow)));
  return { nodes: new Set(on.flatMap(({ source, target }) => [source, target])), edges: new Set(on) };
}

function nodeTip({ level, at, opens }: LevelProps, index: number): Tip {
  const node = level.nodes[index]!;
  const rows: [string, string][] = [];
  const seconds = figures(level.time_s, at)[index];
  const flops = figures(level.flops, at)[index];
  if (seconds != null) rows.push(["time", format(seconds, "seconds")]);
  if (flops != null) rows.push(["FLOPs", format(flops, "count")]);
  const title = node.kind === "module" ? nameOf(node) : `${node.kind} ${nameOf(node)}`;
  return {
    title,
    text: lineOf(node),
    rows,
    ...(opens(index) && { hint: "double click or Enter: look inside" }),
  };
}

function edgeTip({ level }: LevelProps, edge: Edge): Tip {
  const name = (node: number) => nameOf(level.nodes[node]!);
  const rows = edge.flows.map((flow): [string, string] => {
    const tensor = level.flows[flow]!;
    return [`${flowText(tensor)} ${tensor.dtype}`, format(tensor.bytes, "bytes")];
  });
  const turn = edge.source >= edge.target ? "in the next turn" : "";
  return { title: `${name(edge.source)} → ${name(edge.target)}`, text: turn, rows };
}
