/** The row of a table that the reader has chosen. */

import { column } from "../columns";
import type { Table } from "../payload";

/** The row of the tensor with this name; without one, of the first with values that are not finite, or the largest. */
export function selectedRow(table: Table, name: string): number {
  const { words = [], codes = [] } = column(table, "name") ?? {};
  const code = words.indexOf(name);
  if (code >= 0) return codes.indexOf(code);
  const bad = ["nan", "inf"].map((key) => column(table, key)?.numbers?.findIndex((count) => !!count) ?? -1);
  const first = Math.min(...bad.filter((row) => row >= 0));
  if (Number.isFinite(first)) return first;
  const sizes = column(table, "bytes")?.numbers ?? [];
  return sizes.reduce<number>((best, size, row) => ((size ?? 0) > (sizes[best] ?? 0) ? row : best), 0);
}
