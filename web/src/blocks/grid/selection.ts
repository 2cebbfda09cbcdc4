/** The selected row of a table, which other parts of the page may choose too. */

import type { Signal } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";
import { column, valueAt } from "../../columns";
import type { Table } from "../../payload";

/** Which row is selected: the one with the signal's value in a column. */
export interface Selection {
  signal: Signal<string>;
  key: string;
}

/** The selected row, -1 if there is none, and what selects another. */
export function useChosen(table: Table, selection: Selection | undefined): [number, (row: number) => void] {
  const [chosen, setChosen] = useState(-1);
  const by = selection && column(table, selection.key);
  const nameOf = (row: number) => (by && row >= 0 ? String(valueAt(by, row) ?? "") : "");
  const wanted = selection?.signal.value ?? "";
  useLayoutEffect(() => {
    if (!by?.words || nameOf(chosen) === wanted) return;
    const code = wanted ? by.words.indexOf(wanted) : -1;
    const rows = code < 0 ? [] : by.codes!;
    const single = rows.findIndex((one, row) => one === code && (table.run?.[row] ?? 1) === 1);
    setChosen(single < 0 ? rows.indexOf(code) : single);
  }, [table, wanted]);
  const choose = (row: number) => {
    if (!selection) return;
    setChosen(row); // the root has no name, but can be selected
    selection.signal.value = nameOf(row);
  };
  return [chosen, choose];
}
