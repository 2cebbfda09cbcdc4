import { describe, expect, test } from "vitest";
import { curve, labelsOf } from "../src/graph/edges";
import { neighbour } from "../src/graph/keys";
import { layersOf, layout, type Size } from "../src/graph/layout";
import {
  crumbs,
  edgesOf,
  figures,
  flowText,
  moduleIn,
  nodeOf,
  pathOf,
  placesOf,
  reach,
  shownPath,
} from "../src/graph/level";
import { fitted, zoomed } from "../src/graph/view";
import type { Flow, Graph, GraphNode, Level } from "../src/payload";

const flow = (source: number, ...targets: number[]): Flow => ({
  source,
  targets,
  shape: "2x8",
  dtype: "float32",
  bytes: 64,
});
const module = (name: string, path = `.${name}`, run?: number): GraphNode => ({
  kind: "module",
  name,
  path,
  ...(run && { run }),
});
const level = (paths: string[], nodes: GraphNode[], flows: Flow[]): Level => ({
  paths,
  class_name: "Block",
  nodes,
  flows,
});

const INPUT: GraphNode = { kind: "input", name: "input" };
const OUTPUT: GraphNode = { kind: "output", name: "output" };
const ROOT = level(
  [""],
  [INPUT, module("stem"), module("layers.0–3", ".layers.0", 4), OUTPUT],
  [flow(0, 1), flow(1, 2), flow(2, 3)],
);
const LAYER = level(
  ["layers.0", "layers.1", "layers.2", "layers.3"],
  [INPUT, module("attn"), { kind: "op", name: "add" }, OUTPUT],
  [flow(0, 1, 2), flow(1, 2), flow(2, 3)],
);
const GRAPH: Graph = { levels: [ROOT, LAYER] };
const PLACES = placesOf(GRAPH);

/** A pseudo-random graph in which every node but the first reads earlier ones; the same for the same seed. */
function randomGraph(count: number, seed: number): { sizes: Size[]; edges: [number, number][] } {
  let state = seed;
  const next = (below: number) => (state = (state * 48271) % 2147483647) % below;
  const edges = new Map<string, [number, number]>();
  for (let target = 1; target < count; target++)
    for (let reads = 1 + next(2); reads > 0; reads--) {
      const source = Math.max(0, target - 1 - next(6));
      edges.set(`${source}-${target}`, [source, target]);
    }
  return {
    sizes: Array.from({ length: count }, () => ({ width: 80 + next(120), height: 44 })),
    edges: [...edges.values()],
  };
}

describe("layout", () => {
  const cases = [2, 5, 20, 60, 150].flatMap((count) => [1, 2].map((seed) => ({ count, seed })));

  test.each(cases)("$count nodes, seed $seed: edges lead down and boxes do not overlap", ({ count, seed }) => {
    const { sizes, edges } = randomGraph(count, seed);
    for (const sideways of [false, true]) {
      const { nodes, edges: routes, width, height } = layout(sizes, edges, sideways);
      const box = (at: number) => ({
        left: nodes[at]!.x - sizes[at]!.width / 2,
        top: nodes[at]!.y - sizes[at]!.height / 2,
        ...sizes[at]!,
      });
      for (let one = 0; one < count; one++) {
        const a = box(one);
        expect(a.left).toBeGreaterThanOrEqual(-1e-6);
        expect(a.top).toBeGreaterThanOrEqual(-1e-6);
        expect(a.left + a.width).toBeLessThanOrEqual(width + 1e-6);
        expect(a.top + a.height).toBeLessThanOrEqual(height + 1e-6);
        for (let two = 0; two < one; two++) {
          const b = box(two);
          const apart =
            a.left >= b.left + b.width ||
            b.left >= a.left + a.width ||
            a.top >= b.top + b.height ||
            b.top >= a.top + a.height;
          expect(apart).toBe(true);
        }
      }
      const along = (point: { x: number; y: number }) => (sideways ? point.x : point.y);
      routes.forEach((points, at) => {
        const [source, target] = edges[at]!;
        expect(along(points[0]!)).toBeGreaterThan(along(nodes[source]!));
        expect(along(points.at(-1)!)).toBeLessThan(along(nodes[target]!));
        for (let i = 1; i < points.length; i++)
          expect(along(points[i]!)).toBeGreaterThanOrEqual(along(points[i - 1]!));
      });
    }
  });

  test("a chain is a straight line", () => {
    const { nodes } = layout(
      [60, 200, 90, 140].map((width) => ({ width, height: 44 })),
      [
        [0, 1],
        [1, 2],
        [2, 3],
      ],
    );
    expect(new Set(nodes.map(({ x }) => Math.round(x)))).toEqual(new Set([100]));
  });

  test("two branches that could cross do not", () => {
    const { nodes } = layout(
      Array.from({ length: 6 }, () => ({ width: 80, height: 44 })),
      [
        [0, 1],
        [0, 2],
        [2, 3],
        [1, 4],
        [3, 5],
        [4, 5],
      ],
    );
    expect(Math.sign(nodes[1]!.x - nodes[2]!.x)).toBe(Math.sign(nodes[4]!.x - nodes[3]!.x));
  });

  test("a parameter stands right before what reads it", () => {
    expect(
      layersOf(5, [
        [0, 1],
        [1, 2],
        [2, 4],
        [3, 4],
      ]),
    ).toEqual([0, 1, 2, 2, 3]);
  });

  test("an empty level has no extent", () => {
    expect(layout([], [])).toEqual({ width: 0, height: 0, nodes: [], edges: [] });
  });
});

describe("labels", () => {
  test("stand beside edges and cover no box", () => {
    const { sizes, edges } = randomGraph(30, 3);
    const drawn = edges.map(([source, target], at) => ({ source, target, flows: [at] }));
    const flows = edges.map(([source, target]) => flow(source, target));
    const picture = layout(sizes, edges);
    const labels = labelsOf(flows, drawn, picture, sizes, false);
    expect(labels.length).toBeGreaterThan(5);
    for (const { x, y } of labels)
      picture.nodes.forEach((node, at) => {
        const inside = Math.abs(x - node.x) < sizes[at]!.width / 2 && Math.abs(y - node.y) < sizes[at]!.height / 2;
        expect(inside).toBe(false);
      });
  });

  test("a tensor that several nodes read has one", () => {
    const { edges } = edgesOf(LAYER);
    const sizes = LAYER.nodes.map(() => ({ width: 80, height: 44 }));
    const picture = layout(
      sizes,
      edges.map(({ source, target }): [number, number] => [source, target]),
    );
    const labelled = labelsOf(LAYER.flows, edges, picture, sizes, false).map((label) => label.flow);
    expect(new Set(labelled).size).toBe(labelled.length);
  });

  test("a curve starts and ends straight", () => {
    expect(
      curve(
        [
          { x: 0, y: 0 },
          { x: 10, y: 20 },
        ],
        false,
      ),
    ).toBe("M0 0C0 10 10 10 10 20");
    expect(
      curve(
        [
          { x: 0, y: 0 },
          { x: 0, y: 20 },
        ],
        false,
      ),
    ).toBe("M0 0L0 20");
  });
});

describe("levels", () => {
  test("edges join the tensors between two nodes; those to the next turn are apart", () => {
    const { edges, again } = edgesOf(
      level([""], [INPUT, module("a"), module("b")], [flow(0, 1), flow(1, 2), flow(1, 2), flow(2, 1)]),
    );
    expect(edges).toEqual([
      { source: 0, target: 1, flows: [0] },
      { source: 1, target: 2, flows: [1, 2] },
    ]);
    expect(again).toEqual([{ source: 2, target: 1, flows: [3] }]);
  });

  test("paths of nodes", () => {
    expect(pathOf("", module("stem"))).toBe("stem");
    expect(pathOf("layers.2", module("attn"))).toBe("layers.2.attn");
    expect(pathOf("layers.2", module("shared", "stem"))).toBe("stem");
    expect(pathOf("layers.2", INPUT)).toBeUndefined();
  });

  test("a module is found in the run that it is one of", () => {
    expect(nodeOf(ROOT, "", "stem")).toBe(1);
    expect(nodeOf(ROOT, "", "layers.3")).toBe(2);
    expect(nodeOf(ROOT, "", "other.3")).toBe(-1);
    expect(nodeOf(LAYER, "layers.1", "layers.1.attn")).toBe(1);
  });

  test("the level shown is the one opened, while the selected module is in it", () => {
    expect(shownPath(PLACES, "", "")).toBe("");
    expect(shownPath(PLACES, "", "layers.1")).toBe("");
    expect(shownPath(PLACES, "layers.1", "layers.1")).toBe("layers.1");
    expect(shownPath(PLACES, "layers.1", "layers.1.attn")).toBe("layers.1");
    expect(shownPath(PLACES, "layers.1", "layers.3.attn")).toBe("layers.3");
    expect(shownPath(PLACES, "layers.1", "stem")).toBe("");
    expect(shownPath(PLACES, "gone", "layers.2.attn.deeper")).toBe("layers.2");
  });

  test("crumbs name the levels around", () => {
    expect(crumbs(PLACES, "layers.2")).toEqual(["", "layers.2"]);
    expect(crumbs(PLACES, "")).toEqual([""]);
  });

  test("going up selects the module that was left", () => {
    expect(moduleIn(ROOT, "", "layers.2.attn")).toBe("layers.2");
    expect(moduleIn(ROOT, "", "")).toBe("");
    expect(moduleIn(LAYER, "layers.0", "elsewhere")).toBe("layers.0");
  });

  test("the path of a tensor is everything before and behind", () => {
    const { edges } = edgesOf(level([""], [], [flow(0, 1, 2), flow(1, 3), flow(2, 4), flow(3, 5), flow(4, 5)]));
    const { up, down } = reach(edges, 3);
    expect([...up].sort()).toEqual([0, 1, 3]);
    expect([...down].sort()).toEqual([3, 5]);
  });

  test("figures are those of the path, or common to all", () => {
    expect(figures({ rows: [[1], [2]] }, 1)).toEqual([2]);
    expect(figures({ rows: [[1]], mean: true }, 7)).toEqual([1]);
    expect(figures(undefined, 0)).toEqual([]);
  });

  test("several tensors are counted", () => {
    expect(flowText({ ...flow(0, 1), tensors: 6 })).toBe("6 of 2×8");
    expect(flowText(flow(0, 1))).toBe("2×8");
  });
});

describe("view", () => {
  const picture = { width: 400, height: 1000 };

  test("fits the whole picture, but never enlarges it", () => {
    expect(fitted(picture, { width: 800, height: 500 })).toEqual({ x: 300, y: 0, scale: 0.5 });
    expect(fitted(picture, { width: 800, height: 2000 })).toEqual({ x: 200, y: 500, scale: 1 });
  });

  test("stays readable and starts at the top", () => {
    expect(fitted(picture, { width: 800, height: 500 }, 0.7)).toEqual({ x: 260, y: 0, scale: 0.7 });
  });

  test("zooms around a point", () => {
    const shown = zoomed({ x: 10, y: 20, scale: 1 }, 2, 110, 120);
    expect(shown).toEqual({ x: -90, y: -80, scale: 2 });
    expect(zoomed(shown, 10, 0, 0).scale).toBe(2);
  });
});

test("arrow keys follow edges, and go sideways within a layer", () => {
  const { edges } = edgesOf(level([""], [], [flow(0, 1, 2), flow(1, 3), flow(2, 3)]));
  const points = [
    { x: 50, y: 0 },
    { x: 0, y: 50 },
    { x: 90, y: 50 },
    { x: 50, y: 100 },
  ];
  expect(neighbour(edges, points, 0, "ArrowDown", false)).toBe(2);
  expect(neighbour(edges, points, 2, "ArrowLeft", false)).toBe(1);
  expect(neighbour(edges, points, 3, "ArrowUp", false)).toBe(2);
  expect(neighbour(edges, points, 3, "ArrowDown", false)).toBeUndefined();
  expect(neighbour(edges, points, 1, "ArrowLeft", false)).toBeUndefined();
});
