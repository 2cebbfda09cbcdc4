/** What the graph view knows about a level, without drawing it. */

import type { Flow, Graph, GraphNode, Level, NodeFigures } from "../payload";

/** An edge as it is drawn: all tensors from one node to another. */
export interface Edge {
  source: number;
  target: number;
  /** Indices into the level's flows. */
  flows: number[];
}

/** A level and which of its paths is meant. */
export interface Place {
  level: Level;
  at: number;
}

/** The place of each path that has a level. */
export function placesOf(graph: Graph): Map<string, Place> {
  return new Map(graph.levels.flatMap((level) => level.paths.map((path, at) => [path, { level, at }])));
}

/** The edges of a level; `again` are those to the next turn of a run, which lead back. */
export function edgesOf(level: Level): { edges: Edge[]; again: Edge[] } {
  const pairs = new Map<string, Edge>();
  level.flows.forEach((flow, index) => {
    for (const target of flow.targets) {
      const key = `${flow.source}-${target}`;
      const edge = pairs.get(key) ?? { source: flow.source, target, flows: [] };
      edge.flows.push(index);
      pairs.set(key, edge);
    }
  });
  const all = [...pairs.values()];
  return {
    edges: all.filter((edge) => edge.source < edge.target),
    again: all.filter((edge) => edge.source >= edge.target),
  };
}

/** The path of a node's module, or of the first of its run; undefined for other nodes. */
export function pathOf(level: string, node: GraphNode): string | undefined {
  if (!node.path?.startsWith(".")) return node.path;
  return level ? level + node.path : node.path.slice(1);
}

const numbered = (path: string) => /^(.*?)(\d+)$/s.exec(path);

/** The node of a module, or of the run that it is one of; -1 if there is none. */
export function nodeOf(level: Level, path: string, module: string): number {
  const paths = level.nodes.map((node) => pathOf(path, node));
  const exact = paths.indexOf(module);
  const [, stem, number] = numbered(module) ?? [];
  if (exact >= 0 || stem === undefined) return exact;
  return paths.findLastIndex((first, at) => {
    const [, firstStem, firstNumber] = (first && (level.nodes[at]!.run ?? 1) > 1 && numbered(first)) || [];
    return firstStem === stem && Number(firstNumber) < Number(number);
  });
}

/** The path of the module that contains `path`; the root's for a module at the top. */
export const outer = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf(".")));

/** The module at or around `module` that has a node in a level; the level's own path if none has. */
export function moduleIn(level: Level, path: string, module: string): string {
  while (module && nodeOf(level, path, module) < 0) module = outer(module);
  return module || path;
}

/** The path of the level to show: the one opened while the selected module is in it, else the one around that. */
export function shownPath(places: Map<string, Place>, opened: string, module: string): string {
  const place = places.get(opened);
  if (opened && place && (module === opened || nodeOf(place.level, opened, module) >= 0)) return opened;
  let path = outer(module);
  while (path && !places.has(path)) path = outer(path);
  return path;
}

/** The levels around a path, the root first and the path itself last. */
export function crumbs(places: Map<string, Place>, path: string): string[] {
  const parts = path ? path.split(".") : [];
  const prefixes = parts.map((_, at) => parts.slice(0, at + 1).join("."));
  return ["", ...prefixes].filter((each) => each === path || places.has(each));
}

/** All nodes upstream (what it depends on) and downstream (what depends on it) of a node, itself in both. */
export function reach(edges: Edge[], node: number): { up: Set<number>; down: Set<number> } {
  const up = new Set([node]);
  const down = new Set([node]);
  const ordered = [...edges].sort((one, two) => one.source - two.source);
  for (const { source, target } of ordered) if (down.has(source)) down.add(target);
  ordered.sort((one, two) => two.target - one.target);
  for (const { source, target } of ordered) if (up.has(target)) up.add(source);
  return { up, down };
}

/** A figure of each node for one path of a level; empty if nothing is known. */
export function figures(figures: NodeFigures | undefined, at: number): (number | null)[] {
  return figures?.rows[figures.rows.length > 1 ? at : 0] ?? [];
}

/** A shape as people write it: `1×64×56×56`. */
export function shapeText(shape: string | undefined): string {
  return (shape ?? "").replaceAll("x", "×");
}

/** A tensor, or several alike, in a few words: `2 × 1×16×16`. */
export function flowText(flow: Flow): string {
  const shape = shapeText(flow.shape);
  return (flow.tensors ?? 1) > 1 ? `${flow.tensors} of ${shape}` : shape;
}
