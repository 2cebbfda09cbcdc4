/** The row of a table that the reader has chosen. */

import { column } from "../columns";
import type { Table } from "../payload";

/** The row of the tensor with this name; without one, of the largest. */
export function selectedRow(table: Table, name: string): number {
  const { words = [], codes = [] } = column(table, "name") ?? {};
  const code = words.indexOf(name);
  if (code >= 0) return codes.indexOf(code);
  const sizes = column(table, "bytes")?.numbers ?? [];
  return sizes.reduce<number>((best, size, row) => ((size ?? 0) > (sizes[best] ?? 0) ? row : best), 0);
}
