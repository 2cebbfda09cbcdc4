import { expect, test } from "vitest";
import { example, find } from "../src/filter";
import type { Column, Table } from "../src/payload";

const text = (key: string, values: string[], title = key): Column => {
  const words = [...new Set(values)];
  return { key, title, unit: "text", words, codes: values.map((one) => words.indexOf(one)) };
};

const PATHS = ["", "layer1", "layer1.conv1", "layer1.relu", "layer2.conv1", "fc", "aten::add", "c++ [x]"];
const TABLE: Table = {
  rows: 8,
  columns: [
    text("path", PATHS),
    text("class", ["Net", "Sequential", "Conv2d", "ReLU", "Conv2d", "Linear", "Op", "Op"], "Type"),
    { key: "params", title: "Params", unit: "count", numbers: [3e6, 1e6, 1e6, 0, 1.5e6, 5e5, null, null] },
    { key: "time", title: "Self time", unit: "seconds", numbers: [0.01, 0.004, 0.003, 1e-6, 0.002, 0.0019, null, 0] },
    { key: "memory", title: "Memory", unit: "bytes", numbers: [2 ** 20, 1e6, 2048, 1024, 1, 0, 0, 0] },
    { key: "share", title: "Share", unit: "share", numbers: [1, 0.4, 0.3, 0.05, 0.051, 0.2, 0, 0] },
    { key: "energy", title: "Energy", unit: "joules", numbers: [1, 1e-3, 2e-3, 0, 0, 0, 0, 2e6] },
  ],
};

const rows = (query: string) => {
  const mask = find(TABLE, query)?.mask;
  return mask ? [...mask.keys()].filter((row) => mask[row]) : null;
};

test.each<[string, number[]]>([
  ["conv1", [2, 4]],
  ["layer1 conv1", [2]],
  ["conv1 LAYER1", [2]],
  ["linear", [5]],
  ['"layer1.c"', [2]],
  ["aten::add", [6]],
  ["c++ [x]", [7]],
  ["/^layer\\d$/", [1]],
  ["/conv(1|2)/ -layer2", [2]],
  ["type:Conv", [2, 4]],
  ["class:conv2d", [2, 4]],
  ["type:/^(relu|linear)$/", [3, 5]],
  ["type=Conv", []],
  ["type=conv2d", [2, 4]],
  ["type!=conv2d path:layer", [1, 3]],
  ["params>1M", [0, 4]],
  ["params>=1m", [0, 1, 2, 4]],
  ["params > 1,000,000", [0, 4]],
  ["-params>=1M", [3, 5, 6, 7]],
  ["parameters<600k", [3, 5]],
  ["time>=2ms", [0, 1, 2, 4]],
  ["time>=2 ms type:Conv2d", [2, 4]],
  ["time<2µs", [3, 7]],
  ["time<2us", [3, 7]],
  ["selftime=0", [7]],
  ['"self time">3ms', [0, 1]],
  ["memory>=1MiB", [0]],
  ["memory>=1MB", [0, 1]],
  ["mem>=1K", [0, 1, 2, 3]],
  ["share>5%", [0, 1, 2, 4, 5]],
  ["share>5", [0, 1, 2, 4, 5]],
  ["energy>1.5mJ energy<1MJ", [0, 2]],
  ["type:Conv2d -", [2, 4]],
])("%s", (query, wanted) => {
  expect(find(TABLE, query)).toMatchObject({ error: "", note: "" });
  expect(rows(query)).toEqual(wanted);
});

test("an empty query finds nothing to filter", () => {
  expect(find(TABLE, "  ")).toBe(null);
});

test.each([
  ["size>3 conv1", "no column “size”: choose from path, Type, Params, Self time, Memory, Share, Energy"],
  ["params>", "a number is missing: write params>300k"],
  ["time>2parsec", "“2parsec” is not a value of Self time: write time>1ms"],
  ["type>3", "Type is text: write class:3"],
  ["params:3", "Params is a number: write params>3"],
  ["/conv(/", "/conv(/ is not a valid regular expression"],
  ["/conv", "end the regular expression /conv with /"],
])("%s is explained, and the other terms apply", (query, error) => {
  expect(find(TABLE, query)!.error).toBe(error);
  expect(rows(query)).toEqual(query.endsWith("conv1") ? [2, 4] : null);
});

test("misspelt words find similar names, and say so", () => {
  const found = find(TABLE, "lienar")!;
  expect(rows("lienar")).toEqual([5]);
  expect(found.note).toBe("nothing contains “lienar”: these are similar");
  expect(rows("zzzzzz")).toEqual([]);
});

test("hostile patterns are taken literally", () => {
  expect(rows("(a+)+$")).toEqual([]);
  expect(rows("</script>")).toEqual([]);
});

test("the example is a query of this table", () => {
  expect(example(TABLE)).toBe("Type:Conv2d  Params>300k");
  expect(find(TABLE, example(TABLE))!.error).toBe("");
});
