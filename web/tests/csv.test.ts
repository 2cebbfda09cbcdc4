import { expect, test } from "vitest";
import { csvRows } from "../src/csv";
import { csvField } from "../src/export";
import type { Table } from "../src/payload";

const TABLE: Table = {
  rows: 3,
  columns: [
    { key: "name", title: "Name", unit: "text", words: ['a,"b"', "=1+1"], codes: [0, 1, -1] },
    { key: "time", title: "Time", unit: "seconds", numbers: [0.00125, null, 0], hidden: true },
  ],
};

test("rows have raw values of all columns, in the order given", () => {
  expect(csvRows(TABLE, [2, 0, 1])).toEqual([["name", "time"], [null, 0], ['a,"b"', 0.00125], ["=1+1", null]]);
});

test("as text, fields are quoted, unknown is empty and formulas stay text", () => {
  const lines = csvRows(TABLE, [0, 1]).map((row) => row.map(csvField).join(","));
  expect(lines).toEqual(["name,time", '"a,""b""",0.00125', "'=1+1,"]);
});
