/** The block of a table: a grid with its own place in the address, and details of the selected module. */

import { useMemo } from "preact/hooks";
import { useTable } from "../charts/data";
import { column, textAt } from "../columns";
import type { Page, Table } from "../payload";
import { module, param } from "../state";
import { TARGETS } from "./grid/cell";
import { Detail } from "./grid/detail";
import { Grid } from "./grid/grid";
import type { Selection } from "./grid/selection";
import type { BlockProps } from "./index";
import "./table.css";

/** The tables whose selected row the whole page knows. */
const SELECTIONS: Record<string, Selection> = {
  modules: { signal: module, key: "path" },
  tensors: { signal: param("tensor"), key: "name" },
  kinds: { signal: param("op"), key: "name" },
};

/** The table without links to views that the page does not have. */
function linked(table: Table, page: Page): Table {
  const has = (id: string) => page.views.some((view) => view.id === id);
  const columns = table.columns.map((of) => (of.link && !has(TARGETS[of.link][0]) ? { ...of, link: undefined } : of));
  return { ...table, columns };
}

/** A table or tree. */
export function TableBlock({ block, page }: BlockProps<"table">) {
  const decoded = useTable(block.table);
  const table = useMemo(() => decoded && linked(decoded, page), [decoded, page]);
  if (!table) return <p class="decoding">Decoding…</p>;
  const path = block.id === "modules" ? column(table, "path") : undefined;
  const title = (row: number) => textAt(path!, row) || textAt(table.columns[0]!, row);
  return (
    <Grid
      table={table}
      id={block.id}
      label={block.title ?? block.id}
      height={block.height}
      selection={SELECTIONS[block.id]}
      detail={path && ((row, close) => <Detail table={table} row={row} title={title(row)} close={close} />)}
    />
  );
}
