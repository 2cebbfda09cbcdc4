/** Beside the picture of a level: what is selected, or the level itself. */

import type { ComponentChildren } from "preact";
import type { LevelProps } from "../blocks/graph";
import { format } from "../format";
import { Go } from "../go";
import { figures, flowText, pathOf, shapeText, type Edge } from "./level";
import { nameOf } from "./nodes";

type Row = [name: string, value: ComponentChildren];

/** Facts about the selected node or tensor, with what it reads and what reads it. */
export function Panel(props: LevelProps) {
  const { node, edge } = props.picked;
  return (
    <aside class="graph-panel" aria-live="polite">
      {node !== undefined ? (
        <NodePanel {...props} node={node} />
      ) : edge ? (
        <EdgePanel {...props} edge={edge} />
      ) : (
        <LevelPanel {...props} />
      )}
    </aside>
  );
}

function Facts({ rows }: { rows: Row[] }) {
  return (
    <dl>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const MEAN = " · times are means of the modules alike";
const KINDS = { module: "Module", op: "Op", input: "Input", output: "Output", tensor: "Tensor" };

function NodePanel(props: LevelProps & { node: number }) {
  const { level, path, page, node: index, edges, again, opens } = props;
  const node = level.nodes[index]!;
  const all = [...edges, ...again];
  const own = pathOf(path, node);
  const open = opens(index);
  const rows: Row[] = [];
  if (node.detail) rows.push([node.kind === "module" ? "class" : "role", node.detail]);
  if ((node.run ?? 1) > 1) rows.push(["stands for", `${node.run} alike, in turn`]);
  if (node.shape) rows.push(["result", shapeText(node.shape)]);
  if (node.kind === "module" || node.kind === "op") rows.push(...measured(props, index));
  return (
    <>
      <h3>{node.name}</h3>
      <p class="graph-note">
        {KINDS[node.kind]}
        {level.time_s?.mean && MEAN}
      </p>
      <Facts rows={rows} />
      {(open || own !== undefined) && (
        <p class="graph-links">
          {open && (
            <button type="button" onClick={open}>
              Show its data flow
            </button>
          )}
          {own !== undefined && (
            <Go page={page} to="modules" params={{ module: own }}>
              Show in modules
            </Go>
          )}
        </p>
      )}
      <Tensors {...props} title="Reads" edges={all.filter(({ target }) => target === index)} end="source" />
      <Tensors {...props} title="Read by" edges={all.filter(({ source }) => source === index)} end="target" />
    </>
  );
}

/** Time and FLOPs of a node, with their share of the level. */
function measured({ level, at }: LevelProps, node: number): Row[] {
  const part = (values: (number | null)[], unit: "seconds" | "count"): string => {
    const value = values[node];
    const sum = values.reduce<number>((total, each) => total + (each ?? 0), 0);
    if (value == null) return "–";
    return `${format(value, unit)}${sum ? ` (${format(value / sum, "share")})` : ""}`;
  };
  const rows: Row[] = [];
  if (level.time_s) rows.push(["time", part(figures(level.time_s, at), "seconds")]);
  if (level.flops) rows.push(["FLOPs", part(figures(level.flops, at), "count")]);
  return rows;
}

/** Tensors between the node and others; each is a button that selects it. */
function Tensors({
  level,
  title,
  edges,
  end,
  pick,
}: LevelProps & { title: string; edges: Edge[]; end: "source" | "target" }) {
  if (!edges.length) return null;
  return (
    <>
      <h4>{title}</h4>
      <ul>
        {edges.map((edge) =>
          edge.flows.map((flow) => (
            <li key={`${edge.source}-${edge.target}-${flow}`}>
              <button type="button" onClick={() => pick({ edge })}>
                {nameOf(level.nodes[edge[end]]!)}
              </button>
              <span>{flowText(level.flows[flow]!)}</span>
            </li>
          )),
        )}
      </ul>
    </>
  );
}

function EdgePanel({ level, edge, pick }: LevelProps & { edge: Edge }) {
  const node = (index: number) => (
    <button key={index} type="button" onClick={() => pick({ node: index })}>
      {nameOf(level.nodes[index]!)}
    </button>
  );
  return (
    <>
      {edge.flows.map((index) => {
        const flow = level.flows[index]!;
        const rows: Row[] = [
          ["dtype", flow.dtype],
          [(flow.tensors ?? 1) > 1 ? "size of all" : "size", format(flow.bytes, "bytes")],
          ["produced by", node(flow.source)],
          ["read by", <span class="graph-readers">{flow.targets.map(node)}</span>],
        ];
        return (
          <div key={index}>
            <h3>{flowText(flow)}</h3>
            <p class="graph-note">Tensor{edge.source >= edge.target && " · read in the next turn"}</p>
            <Facts rows={rows} />
          </div>
        );
      })}
    </>
  );
}

function LevelPanel({ level, path }: LevelProps) {
  const count = (kind: string) =>
    level.nodes.reduce((sum, node) => sum + (node.kind === kind ? (node.run ?? 1) : 0), 0);
  const rows: Row[] = [
    ["modules", format(count("module"), "exact")],
    ["ops of its own", format(count("op"), "exact")],
  ];
  if (level.views) rows.push(["views, not drawn", format(level.views, "exact")]);
  if (level.calls) rows.push(["calls", `${level.calls}, the first is shown`]);
  if (level.idle?.length) rows.push(["ran no op", level.idle.join(", ")]);
  if (level.more) rows.push(["not listed", `${format(level.more, "exact")} nodes`]);
  return (
    <>
      <h3>{path || level.class_name}</h3>
      <p class="graph-note">
        {level.class_name}
        {level.time_s?.mean && MEAN}
      </p>
      <Facts rows={rows} />
      <p class="graph-note">Select a module or a tensor to follow its path; double click a module to look into it.</p>
    </>
  );
}
