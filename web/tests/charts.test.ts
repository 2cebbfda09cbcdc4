import { describe, expect, test } from "vitest";
import { byAmount, heatStep } from "../src/charts/colours";
import { deviations, groupsOf, rowsToDraw, spreadOf } from "../src/charts/deviation";
import { flow } from "../src/charts/legend";
import { Modules } from "../src/charts/modules";
import { greyPixels } from "../src/charts/pixels";
import { pointsOf, ranges } from "../src/charts/points";
import { extent, linear, logarithmic, roundUp, spread, ticksBetween } from "../src/charts/scale";
import { selectedRow } from "../src/charts/selected";
import { geometric, linePath, stageAt, stepPath } from "../src/charts/series";
import { fit, fitEnd, textWidth } from "../src/charts/text";
import { amountsOf, icicle, neighbour, squarify, treemap, type Tile } from "../src/charts/tiles";
import { beside, placed, visible, zoomed } from "../src/charts/timeline";
import { csvField, fileName, plainColour } from "../src/export";
import type { Column, Spans, Table } from "../src/payload";
import { treeOf } from "../src/tree";

const numbers = (key: string, values: (number | null)[]): Column => ({
  key,
  title: key,
  unit: "number",
  numbers: values,
});
const words = (key: string, texts: (string | null)[]): Column => {
  const distinct = [...new Set(texts.filter((text) => text !== null))];
  return {
    key,
    title: key,
    unit: "text",
    words: distinct,
    codes: texts.map((text) => (text === null ? -1 : distinct.indexOf(text))),
  };
};

describe("scales", () => {
  test("ticks are round numbers inside the range", () => {
    expect(ticksBetween([0, 1], 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(ticksBetween([0.05, 0.33], 4)).toEqual([0.1, 0.2, 0.3]);
    expect(ticksBetween([0, 3 * 2 ** 30], 4, "bytes")).toEqual([0, 2 ** 30, 2 * 2 ** 30, 3 * 2 ** 30]);
    expect(ticksBetween([0, 2], 5, "exact")).toEqual([0, 1, 2]);
    expect(roundUp(1.06, 6)).toBeCloseTo(1.2);
    expect(roundUp(0, 6)).toBe(1);
  });
  test("a scale and its inverse agree", () => {
    for (const scale of [linear([2, 12], [100, 0]), logarithmic([2, 2000], [10, 400])]) {
      for (const value of [2, 3, 7.5, 11]) expect(scale.invert(scale(value))).toBeCloseTo(value);
    }
  });
  test("a single value lies in the middle", () => {
    expect(linear([5, 5], [0, 100])(5)).toBe(50);
    expect(linear([0, 0], [0, 100])(0)).toBe(50);
  });
  test("logarithmic ticks are powers of ten, or 1, 2 and 5 in a short range", () => {
    expect(logarithmic([1e3, 1e9], [0, 1], 10).ticks).toEqual([1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]);
    const few = logarithmic([3, 60], [0, 1]).ticks;
    expect(few.map((tick) => Math.round(tick))).toEqual([5, 10, 20, 50]);
  });
  test("labels are moved apart, in their order, and not beyond the edges", () => {
    const placed = spread([10, 12, 11, 95], 15, 100);
    const sorted = [placed[0]!, placed[2]!, placed[1]!, placed[3]!];
    for (let i = 1; i < 4; i++) expect(sorted[i]! - sorted[i - 1]!).toBeGreaterThanOrEqual(15);
    expect(spread([99, 100, 100], 10, 100)).toEqual([80, 90, 100]);
  });
  test("unknown values have no extent", () => {
    expect(extent([null, NaN, undefined])).toBeNull();
    expect(extent([null, 3, -1, Infinity])).toEqual([-1, 3]);
  });
});

describe("text", () => {
  test("is cut to its width, at its end or its start", () => {
    const path = "model.layers.12.self_attn.q_proj";
    for (const width of [0, 10, 40, 90, 150]) {
      expect(textWidth(fit(path, width))).toBeLessThanOrEqual(width);
      expect(textWidth(fitEnd(path, width))).toBeLessThanOrEqual(width);
    }
    expect(fit(path, 500)).toBe(path);
    expect(fitEnd(path, 90)).toMatch(/^….*q_proj$/);
  });
  test("a legend flows into rows", () => {
    expect(flow([60, 60, 60], 130)).toEqual([
      { x: 0, row: 0 },
      { x: 60, row: 0 },
      { x: 0, row: 1 },
    ]);
  });
});

/** root(100) > a(60) > [run of 2: b, c of 30 each], d(40). */
const depth = [0, 1, 2, 3, 3, 1];
const run = [1, 1, 2, 1, 1, 1];
const tree = treeOf(depth);
const amounts = amountsOf(tree, numbers("params", [100, null, null, 30, 30, 40]));
const areas = { tree, amounts, run };
const area = (tile: Tile) => tile.width * tile.height;

describe("tiles", () => {
  test("an unknown amount is the sum of the children's, a known one is not", () => {
    expect([...amounts]).toEqual([100, 60, 60, 30, 30, 40]);
  });
  test("an icicle shows the members of a run if they are wide enough, else the run", () => {
    expect(icicle(areas, 0, 200).map((tile) => [tile.row, tile.level, tile.x, tile.width])).toEqual([
      [0, 0, 0, 200],
      [1, 1, 0, 120],
      [3, 2, 0, 60],
      [4, 2, 60, 60],
      [5, 1, 120, 80],
    ]);
    expect(icicle(areas, 0, 6).map((tile) => tile.row)).toEqual([0, 1, 2, 5]);
  });
  test("children that add up to more than their parent stay inside it", () => {
    const shared = { tree, amounts: Float64Array.from([50, 60, 60, 30, 30, 40]), run };
    for (const tile of icicle(shared, 0, 100)) expect(tile.x + tile.width).toBeLessThanOrEqual(100.001);
  });
  test("modules too small to draw are counted in one box", () => {
    const many = treeOf([0, ...Array<number>(500).fill(1)]);
    const flat = {
      tree: many,
      amounts: amountsOf(many, numbers("n", [null, ...Array<number>(500).fill(1)])),
      run: [],
    };
    const tiles = icicle(flat, 0, 100);
    expect(tiles).toHaveLength(2);
    expect(tiles[1]).toMatchObject({ more: 500, x: 0 });
    expect(tiles[1]!.width).toBeCloseTo(100);
  });
  test("the parts of a rectangle have their areas and do not overlap", () => {
    const parts = [6, 6, 4, 3, 2, 2, 1];
    const rects = squarify(parts, { x: 0, y: 0, width: 6, height: 4 });
    rects.forEach((rect, i) => expect(rect.width * rect.height).toBeCloseTo(parts[i]!));
    for (const one of rects) {
      for (const other of rects) {
        const wide = Math.min(one.x + one.width, other.x + other.width) - Math.max(one.x, other.x);
        const tall = Math.min(one.y + one.height, other.y + other.height) - Math.max(one.y, other.y);
        if (one !== other) expect(Math.min(wide, tall)).toBeLessThan(1e-9);
      }
    }
  });
  test("boxes of a treemap lie in the box around them, in proportion", () => {
    const tiles = treemap(areas, 0, 600, 400);
    expect(tiles.map((tile) => tile.row).sort()).toEqual([0, 1, 3, 4, 5]);
    for (const tile of tiles.slice(1)) {
      const outer = tiles[tile.parent]!;
      expect(tile.x).toBeGreaterThanOrEqual(outer.x);
      expect(tile.x + tile.width).toBeLessThanOrEqual(outer.x + outer.width + 1e-6);
      expect(tile.y + tile.height).toBeLessThanOrEqual(outer.y + outer.height + 1e-6);
    }
    const [a, d] = [1, 5].map((row) => tiles.find((tile) => tile.row === row)!);
    expect(area(a!) / area(d!)).toBeCloseTo(1.5);
  });
  test("arrows lead to the box around, inside and beside", () => {
    const tiles = icicle(areas, 0, 200);
    expect(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].map((key) => neighbour(tiles, 1, key))).toEqual([
      0,
      2,
      null,
      4,
    ]);
    expect(neighbour(tiles, 3, "ArrowDown")).toBeNull();
  });
});

describe("modules", () => {
  const table: Table = {
    rows: 6,
    depth,
    run,
    columns: [
      words("name", ["(root)", "a", "0–1 ×2", "0", "1", "d"]),
      words("class", ["Net", "Sequential", "Block", "Block", "Block", "Linear"]),
      words("path", ["(root)", "a", null, "a.0", "a.1", "d"]),
    ],
  };
  const modules = new Modules(table);
  test("a link finds its row again", () => {
    for (let row = 0; row < table.rows; row++) expect(modules.row(modules.key(row))).toBe(row);
    expect(modules.row("gone")).toBe(-1);
    expect(modules.row("#99")).toBe(-1);
  });
  test("runs have a path to show, and are left out of the way to the root", () => {
    expect(modules.path(2)).toBe("a.0–1 ×2");
    expect(modules.trail(4)).toEqual([0, 1, 4]);
  });
  test("containers have no colour", () => {
    expect([...modules.colours.keys()]).toEqual(["Block", "Linear"]);
  });
});

describe("colours", () => {
  test("the eight largest have one", () => {
    const colours = byAmount(new Map(Array.from({ length: 12 }, (_, i) => [`c${i}`, i])));
    expect([...colours.keys()]).toEqual(["c11", "c10", "c9", "c8", "c7", "c6", "c5", "c4"]);
    expect(new Set(colours.values()).size).toBe(8);
  });
  test("a step is the number of limits that are reached", () => {
    expect([0, 2, 3, 6, 1e9].map((value) => heatStep(value, [2, 3.5, 6, 10]))).toEqual([0, 1, 1, 3, 4]);
  });
});

describe("deviations", () => {
  test("an outlier does not hide itself", () => {
    const values = [1, 1.1, 0.9, 1.05, 0.95, 100];
    const found = deviations(
      values,
      values.map(() => ["all"]),
    );
    expect(found[5]!.by).toBeGreaterThan(100);
    expect(Math.abs(found[0]!.by)).toBeLessThan(2);
  });
  test("equal values do not deviate, and one other does", () => {
    expect(spreadOf([0, 0, 0]).distance).toBe(0);
    const found = deviations([2, 2, 2, 2, 2, 3], Array<string[]>(6).fill(["all"]));
    expect(found[0]!.by).toBe(0);
    expect(found[5]!.by).toBeGreaterThan(3);
  });
  test("a row is compared with its family, or with names of the same ending if that is small", () => {
    const names = [...Array.from({ length: 6 }, (_, i) => `layer.${i}.conv1.weight`), "conv1.weight", "fc.bias"];
    const groups = names.map((name, i) => groupsOf(name, i < 6 ? "layer.#.conv1.weight" : name));
    const found = deviations([1, 2, 3, 4, 5, 6, 7, 8], groups);
    expect(found.map((one) => one?.group)).toEqual([
      ...Array<string>(6).fill("layer.#.conv1.weight"),
      "conv#.weight",
      undefined, // nothing is like it
    ]);
  });
  test("unknown stays unknown", () => {
    expect(deviations([null, NaN], [["a"], ["a"]])).toEqual([null, null]);
  });
  test("of too many rows, those with the largest deviations are drawn", () => {
    const cell = (by: number) => ({ by, median: 0, group: "", count: 9 });
    const cells = [[cell(1), cell(-9), null, cell(4)]];
    expect(rowsToDraw(cells, 4, false)).toEqual([0, 1, 2, 3]);
    expect(rowsToDraw(cells, 4, true)).toEqual([1, 3, 0, 2]);
    expect(rowsToDraw(cells, 4, false, 2)).toEqual([1, 3]);
  });
});

describe("lines and areas", () => {
  test("unknown values leave a gap", () => {
    expect(linePath([[0, 1], [1, 2], null, [3, 4], [4, 5]])).toBe("M0 1L1 2M3 4L4 5");
  });
  test("sizes that double are geometric, layers are not", () => {
    expect(geometric([1, 2, 4, 8, 16])).toBe(true);
    expect(geometric([0, 1, 2, 4, 8])).toBe(false);
    expect(geometric(Array.from({ length: 100 }, (_, i) => i + 1))).toBe(false);
  });
  test("steps that share a pixel keep their peak", () => {
    const values = Array.from({ length: 1000 }, (_, i) => (i === 500 ? 10 : 1));
    const path = stepPath(values, linear([0, 1000], [0, 100]), linear([0, 10], [50, 0]));
    expect(path).toContain("V0H");
    expect(path.split("H").length).toBeLessThan(150);
  });
  test("an op is in its stage", () => {
    expect(
      stageAt(
        [
          { name: "a", first: 0, last: 3 },
          { name: "b", first: 4, last: 4 },
        ],
        4,
      ),
    ).toBe("b");
    expect(stageAt([], 4)).toBeUndefined();
  });
});

describe("spans", () => {
  const spans: Spans = {
    start_s: [0, 0, 1, 1, 6],
    duration_s: [10, 5, 2, 0.001, 4],
    depth: [0, 1, 2, 3, 1],
    words: [],
    names: [],
    paths: [],
    op: [],
    how: "",
  };
  test("only spans of a pixel and more in the period are drawn", () => {
    expect(visible(spans, [0, 10], 100)).toEqual({ drawn: [0, 1, 2, 4], short: 1 });
    expect(visible(spans, [1, 1.002], 100)).toEqual({ drawn: [0, 1, 2, 3], short: 0 });
  });
  test("arrows lead around, inside and beside", () => {
    const to = (from: number, key: string) => beside(spans.depth, [0, 1, 2, 4], from, key);
    expect([
      to(1, "ArrowUp"),
      to(1, "ArrowDown"),
      to(1, "ArrowRight"),
      to(4, "ArrowDown"),
      to(4, "ArrowLeft"),
    ]).toEqual([0, 2, 4, null, 1]);
  });
  test("zooming keeps a time in place and stays inside", () => {
    expect(zoomed([0, 10], 0.5, [0, 10])).toEqual([2.5, 7.5]);
    expect(zoomed([0, 10], 0.5, [0, 10], 2)).toEqual([1, 6]);
    expect(zoomed([2, 4], 100, [0, 10])).toEqual([0, 10]);
    expect(placed(9, 4, [0, 10])).toEqual([6, 10]);
  });
});

describe("roofline", () => {
  const table: Table = {
    rows: 4,
    columns: [
      numbers("intensity", [1, 50, null, 0]),
      numbers("flops_per_s", [1e9, 1e11, 1e9, 1e9]),
      numbers("share", [0.1, 0.7, 0.1, 0.1]),
      words("bound", ["memory", "compute", "memory", null]),
    ],
  };
  test("points have a known position, the largest first", () => {
    expect(pointsOf(table).map((point) => [point.row, point.bound])).toEqual([
      [1, "compute"],
      [0, "memory"],
    ]);
  });
  test("the axes hold all points and ridges", () => {
    const { x, y } = ranges(pointsOf(table), {
      peaks: [
        { name: "a", value: 2e11 },
        { name: "b", value: 9e11 },
      ],
      bandwidth: 1.5e10,
    });
    expect(x[0]).toBeLessThan(1);
    expect(x[1]).toBeGreaterThan(60);
    expect(y[0]).toBeLessThan(1e9);
    expect(y[1]).toBeGreaterThan(9e11);
  });
});

test("the largest tensor is selected at first", () => {
  const table: Table = { rows: 3, columns: [words("name", ["a", "b", "c"]), numbers("bytes", [1, 9, null])] };
  expect(selectedRow(table, "")).toBe(1);
  expect(selectedRow(table, "c")).toBe(2);
  expect(selectedRow(table, "gone")).toBe(1);
});

test("grey pixels are opaque", () => {
  expect([...greyPixels(btoa(String.fromCharCode(0, 200)), 2)]).toEqual([0, 0, 0, 255, 200, 200, 200, 255]);
});

describe("export", () => {
  test("mixed colours are written so that other programs read them", () => {
    expect(plainColour("color(srgb 1 0.5 0)")).toBe("rgb(255, 128, 0)");
    expect(plainColour("color(srgb 1 0 0 / 0.3)")).toBe("rgba(255, 0, 0, 0.3)");
    expect(plainColour("rgb(1, 2, 3)")).toBe("rgb(1, 2, 3)");
  });
  test("files have harmless names", () => {
    expect(fileName("../a b/c:histogram", "svg")).toBe("a-b-c-histogram.svg");
    expect(fileName("//", "png")).toBe("assay.png");
  });
  test("a spreadsheet does not run text as a formula", () => {
    expect(csvField("=cmd|' /C calc'!A0")).toBe("'=cmd|' /C calc'!A0");
    expect(csvField("-1.5")).toBe("-1.5");
    expect(csvField(-1.5)).toBe("-1.5");
    expect(csvField('say "a", b')).toBe('"say ""a"", b"');
    expect(csvField(null)).toBe("");
  });
});
