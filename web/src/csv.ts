/** Tables as rows of raw values, to be saved as CSV. */

import { valueAt } from "./columns";
import { downloadCsv } from "./export";
import type { Table } from "./payload";

/** The keys of all columns, then the values of these rows; null is unknown. */
export function csvRows(table: Table, rows: ArrayLike<number>): (string | number | null)[][] {
  const values = Array.from(rows, (row) => table.columns.map((of) => valueAt(of, row)));
  return [table.columns.map((of) => of.key), ...values];
}

/** Saves these rows of a table as `name.csv`. */
export function saveCsv(table: Table, rows: ArrayLike<number>, name: string): void {
  downloadCsv(csvRows(table, rows), name);
}
