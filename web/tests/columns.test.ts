import { expect, test } from "vitest";
import { column, largest, longest, ordered, ranksOf, textAt, valueAt } from "../src/columns";
import type { Column } from "../src/payload";

const numbers = (...values: (number | null)[]): Column => ({ key: "n", title: "n", unit: "count", numbers: values });
const texts = (...values: (string | null)[]): Column => {
  const words = [...new Set(values.filter((one) => one !== null))];
  const codes = values.map((one) => (one === null ? -1 : words.indexOf(one)));
  return { key: "t", title: "t", unit: "text", words, codes };
};
const sorted = (of: Column, descending = false) => [...ordered(ranksOf(of), descending)].map((row) => valueAt(of, row));

test("cells are read as values and as text", () => {
  expect(textAt(numbers(1536000, null), 0)).toBe("1.54 M");
  expect(textAt(numbers(1536000, null), 1)).toBe("–");
  expect(textAt(texts("Conv2d", null), 0)).toBe("Conv2d");
  expect(textAt(texts("Conv2d", null), 1)).toBe("–");
  expect(valueAt(numbers(0), 0)).toBe(0);
  const of = numbers(1);
  expect(column({ rows: 1, columns: [of] }, "n")).toBe(of);
});

test("numbers are sorted with unknown last in both directions", () => {
  const of = numbers(3, null, -1, 20, 0);
  expect(sorted(of)).toEqual([-1, 0, 3, 20, null]);
  expect(sorted(of, true)).toEqual([20, 3, 0, -1, null]);
});

test("text is sorted naturally, whatever its case", () => {
  const of = texts("layer10", null, "layer2", "Alpha", "layer2.b", "layer2.a10", "layer2.a9");
  expect(sorted(of)).toEqual(["Alpha", "layer2", "layer2.a9", "layer2.a10", "layer2.b", "layer10", null]);
  expect(sorted(of, true).at(-1)).toBe(null);
});

test("equal values keep their order in both directions", () => {
  const of = numbers(1, 2, 1, 2, null, null);
  expect([...ordered(ranksOf(of), false)]).toEqual([0, 2, 1, 3, 4, 5]);
  expect([...ordered(ranksOf(of), true)]).toEqual([1, 3, 0, 2, 4, 5]);
});

test("a column without known values is left as it is", () => {
  expect([...ordered(ranksOf(numbers(null, null)), true)]).toEqual([0, 1]);
  expect([...ordered(ranksOf(texts()), true)]).toEqual([]);
});

test("sorting agrees with a plain sort of random values", () => {
  const values = Array.from({ length: 500 }, () => Math.round(Math.random() * 100) - 50);
  expect(sorted(numbers(...values))).toEqual(values.slice().sort((a, b) => a - b));
});

test("bars are relative to the largest size, the longest word is known", () => {
  expect(largest(numbers(1, -5, null))).toBe(5);
  expect(largest(texts("a"))).toBe(0);
  expect(longest(texts("a", "abc"))).toBe("abc");
});
