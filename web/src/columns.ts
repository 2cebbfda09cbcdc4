/** Cells of a table in columns, and the order of its rows by a column. */

import { format, UNKNOWN } from "./format";
import type { Column, Table } from "./payload";

/** The column with this key, if the table has one. */
export function column(table: Table, key: string): Column | undefined {
  return table.columns.find((one) => one.key === key);
}

/** The value of a cell: a number, text, or null if it is not known. */
export function valueAt(of: Column, row: number): number | string | null {
  return of.numbers ? (of.numbers[row] ?? null) : (of.words?.[of.codes?.[row] ?? -1] ?? null);
}

/** The text of a cell; a dash if its value is not known. */
export function textAt(of: Column, row: number): string {
  const value = of.words ? (of.words[of.codes?.[row] ?? -1] ?? null) : valueAt(of, row);
  return typeof value === "number" ? format(value, of.unit) : (value ?? UNKNOWN);
}

/** The function of a column, computed once per column. */
function perColumn<T>(compute: (of: Column) => T): (of: Column) => T {
  const known = new WeakMap<Column, T>();
  return (of) => {
    if (!known.has(of)) known.set(of, compute(of));
    return known.get(of)!;
  };
}

/** Text whose plain order is the natural one: each number is preceded by its length, so that 2 comes before 10. */
function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => String.fromCharCode(digits.length) + digits);
}

/** For each word, its place among the words in natural order. */
function wordRanks(words: string[]): Int32Array {
  const keys = words.map(naturalKey);
  const compare = (a: number, b: number) => (keys[a]! < keys[b]! ? -1 : keys[a]! > keys[b]! ? 1 : a - b);
  const sorted = Uint32Array.from(words.keys()).sort(compare);
  const ranks = new Int32Array(words.length);
  sorted.forEach((word, rank) => (ranks[word] = rank));
  return ranks;
}

function numberRanks(numbers: (number | null)[]): Int32Array {
  const sorted = new Float64Array(numbers.length);
  let count = 0;
  for (const value of numbers) if (value !== null) sorted[count++] = value;
  sorted.subarray(0, count).sort();
  const ranks = new Int32Array(numbers.length).fill(-1);
  for (let row = 0; row < numbers.length; row++) {
    const value = numbers[row]!;
    if (value === null) continue;
    let low = 0;
    for (let high = count; low < high; ) {
      const middle = (low + high) >> 1;
      if (sorted[middle]! < value) low = middle + 1;
      else high = middle;
    }
    ranks[row] = low;
  }
  return ranks;
}

/** For each row, the place of its value among all in ascending order; equal values are in one place, unknown is -1. */
export const ranksOf = perColumn((of): Int32Array => {
  if (of.numbers) return numberRanks(of.numbers);
  const ranks = wordRanks(of.words ?? []);
  return Int32Array.from(of.codes ?? [], (code) => ranks[code] ?? -1);
});

/** Rows in the order of their ranks; equal ones as they are, unknown ones (-1) last in both directions. */
export function ordered(ranks: Int32Array, descending: boolean): Int32Array {
  let top = -1;
  for (const rank of ranks) if (rank > top) top = rank;
  const place = (rank: number) => (rank < 0 ? top + 1 : descending ? top - rank : rank);
  const starts = new Int32Array(top + 3);
  for (const rank of ranks) starts[place(rank) + 1]!++;
  for (let at = 1; at < starts.length; at++) starts[at]! += starts[at - 1]!;
  const order = new Int32Array(ranks.length);
  ranks.forEach((rank, row) => (order[starts[place(rank)]!++] = row));
  return order;
}

/** The largest size of a column's numbers, which a full bar stands for; 0 if there are none. */
export const largest = perColumn((of): number => {
  let most = 0;
  for (const value of of.numbers ?? []) if (value !== null && Math.abs(value) > most) most = Math.abs(value);
  return most;
});

/** How many numbers are written to find the longest. */
const WRITTEN = 400;

/** The longest text of a column: of all words, or of numbers from all parts of it; empty if it has none. */
export const longest = perColumn((of): string => {
  const rows = of.numbers?.length ?? 0;
  const step = Math.max(1, Math.floor(rows / WRITTEN));
  let most = "";
  const take = (text: string) => (most = text.length > most.length ? text : most);
  if (of.words) of.words.forEach(take);
  else for (let row = 0; row < rows; row += step) take(textAt(of, row));
  return most;
});
