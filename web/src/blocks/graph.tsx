/** The data flow of the model, one module level at a time: a picture, or a list if it has too many nodes. */

import { batch } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { useSection } from "../charts/data";
import { Drawing } from "../graph/drawing";
import {
  crumbs,
  edgesOf,
  moduleIn,
  nodeOf,
  pathOf,
  placesOf,
  shownPath,
  type Edge,
  type Place,
} from "../graph/level";
import { LevelList } from "../graph/list";
import { Panel } from "../graph/panel";
import type { Graph, Page } from "../payload";
import { module, param } from "../state";
import type { BlockProps } from ".";
import "./graph.css";

/** Levels with more nodes are shown as a list. */
const LARGEST = 150;

/** What is selected: a node, or all tensors between two nodes. */
export interface Picked {
  node?: number;
  edge?: Edge;
}

/** What a level is shown with, and what the reader can do in it. */
export interface LevelProps extends Place {
  path: string;
  page: Page;
  edges: Edge[];
  /** Edges that lead back, to the next turn of a run. */
  again: Edge[];
  picked: Picked;
  pick: (picked: Picked) => void;
  /** Shows the level of a node; undefined if the node has none. */
  opens: (node: number) => (() => void) | undefined;
  /** Shows the level around this one; undefined at the root. */
  up: (() => void) | undefined;
}

/** The graph of a block, once it is decoded. */
export function GraphBlock({ block, page }: BlockProps<"graph">) {
  const graph = useSection<Graph>(block.section);
  return graph && (graph.levels.length ? <Levels graph={graph} page={page} /> : <p>No op was recorded.</p>);
}

function Levels({ graph, page }: { graph: Graph; page: Page }) {
  const opened = param("level");
  const flow = param("flow");
  const places = useMemo(() => placesOf(graph), [graph]);
  const path = shownPath(places, opened.value, module.value);
  const place = places.get(path) ?? { level: graph.levels[0]!, at: 0 };
  const { level } = place;
  const { edges, again } = useMemo(() => edgesOf(level), [level]);

  const show = (to: string, selected: string) =>
    batch(() => {
      opened.value = to;
      module.value = selected;
      flow.value = "";
    });
  const upTo = (to: string) => show(to, moduleIn(places.get(to)!.level, to, path));
  const around = crumbs(places, path);
  const above = around.at(-2);
  const opens = (node: number) => {
    const first = pathOf(path, level.nodes[node]!);
    const own = nodeOf(level, path, module.value) === node ? module.value : first;
    const to = own !== undefined && places.has(own) ? own : first;
    return to !== undefined && to !== path && places.has(to) ? () => show(to, to) : undefined;
  };
  // A module is selected everywhere; an op or an edge only here, while this level's own module is selected.
  const pick = ({ node, edge }: Picked) =>
    batch(() => {
      const first = node === undefined ? undefined : pathOf(path, level.nodes[node]!);
      // It may be another member of a run.
      const selected = first !== undefined && node === picked.node ? module.value : first;
      opened.value = path;
      module.value = selected ?? path;
      flow.value = edge ? `${edge.source}-${edge.target}` : `${node ?? ""}`;
    });
  const picked = ((): Picked => {
    const [source, target] = flow.value.split("-");
    if (module.value !== path) {
      const node = nodeOf(level, path, module.value);
      const chosen = Number(source || -1); // of several calls of a module, one is meant
      const same = target === undefined && node >= 0 && level.nodes[chosen]?.path === level.nodes[node]!.path;
      return same ? { node: chosen } : node < 0 ? {} : { node };
    }
    const edge = [...edges, ...again].find(
      (each) => each.source === Number(source) && each.target === Number(target),
    );
    if (edge) return { edge };
    return target === undefined && source && level.nodes[Number(source)] ? { node: Number(source) } : {};
  })();

  const props: LevelProps = {
    ...place,
    path,
    page,
    edges,
    again,
    picked,
    pick,
    opens,
    up: above === undefined ? undefined : () => upTo(above),
  };
  const drawn = level.nodes.length <= LARGEST && graph.recorded !== false;
  return (
    <div class="graph">
      <Crumbs around={around} {...props} go={upTo} show={(to) => show(to, to)} />
      <div class="graph-parts">
        {drawn ? <Drawing key={path} {...props} /> : <LevelList {...props} recorded={graph.recorded !== false} />}
        <Panel {...props} />
      </div>
    </div>
  );
}

interface CrumbsProps extends LevelProps {
  around: string[];
  go: (path: string) => void;
  show: (path: string) => void;
}

/** The modules around the level, and the steps to others that are alike. */
function Crumbs({ around, level, at, path, page, go, show }: CrumbsProps) {
  const name = (to: string, outer: string | undefined) =>
    to ? to.slice(outer ? outer.length + 1 : 0) : page.title || level.class_name;
  const alike = level.paths.length;
  return (
    <nav class="graph-crumbs" aria-label="Module">
      {around.map((to, index) =>
        to === path ? (
          <b key={to} aria-current="location">
            {name(to, around[index - 1])}
          </b>
        ) : (
          <button key={to} type="button" onClick={() => go(to)}>
            {name(to, around[index - 1])}
          </button>
        ),
      )}
      {path && <span class="graph-class">{level.class_name}</span>}
      {alike > 1 && (
        <span class="graph-alike">
          <button
            type="button"
            aria-label="Previous of those alike"
            disabled={at === 0}
            onClick={() => show(level.paths[at - 1]!)}
          >
            ‹
          </button>
          {at + 1} of {alike.toLocaleString("en")} alike
          <button
            type="button"
            aria-label="Next of those alike"
            disabled={at === alike - 1}
            onClick={() => show(level.paths[at + 1]!)}
          >
            ›
          </button>
        </span>
      )}
    </nav>
  );
}
