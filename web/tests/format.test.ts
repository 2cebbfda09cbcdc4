import { describe, expect, test } from "vitest";
import { format } from "../src/format";
import type { Unit } from "../src/payload";
import golden from "./units.json";

describe("format writes what assay.units writes", () => {
  test.each(Object.entries(golden))("%s", (unit, rows) => {
    const texts = rows.map(([value]) => [value, format(value as number | null, unit as Unit)]);
    expect(texts).toEqual(rows);
  });
});

test.each([
  [0, "0"],
  [0.25, "0.25"],
  [-0.0123456, "-0.01235"],
  [12.3456, "12.35"],
  [999.97, "1,000"],
  [123456.7, "123,457"],
  [12345678, "1.235e+07"],
  [0.0000123456, "1.235e-05"],
])("number %s is %s", (value, text) => {
  expect(format(value, "number")).toBe(text);
});

test("values that are no numbers are written too", () => {
  expect(format(undefined, "seconds")).toBe("–");
  expect(format(NaN, "bytes")).toBe("–");
  expect(format(Infinity, "count")).toBe("∞");
  expect(format(-Infinity, "ratio")).toBe("-∞");
});
