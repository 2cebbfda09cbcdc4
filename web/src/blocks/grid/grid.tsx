/** A table or tree of any length: only the rows in sight are drawn, and the keyboard reaches all of them. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { ranksOf } from "../../columns";
import type { Table } from "../../payload";
import { param } from "../../state";
import { useColumns, type Columns } from "./chooser";
import { useCursor } from "./cursor";
import { alignment, Heading } from "./heading";
import { Row } from "./row";
import { useRows } from "./rows";
import { useChosen, type Selection } from "./selection";
import { Cut } from "./cell";
import { Toolbar } from "./toolbar";
import { tracks } from "./widths";
import { ROW, useWindow } from "./window";

/** Tables with more rows are as high as the window. */
const SHOWN_WHOLE = 30;

interface Props {
  table: Table;
  /** The name of its parameters in the address, and of its CSV file. */
  id: string;
  label: string;
  /** Rows before it scrolls. */
  height?: number | undefined;
  selection?: Selection | undefined;
  /** What is shown beside the table about the selected row. */
  detail?: ((row: number, close: () => void) => ComponentChildren) | undefined;
}

/** Computes the order by each column while the reader looks at the first rows, so that sorting takes no time. */
function usePrepared(table: Table): void {
  useEffect(() => {
    const columns = [...table.columns];
    const next = () => {
      const of = columns.shift();
      if (of) ranksOf(of);
      if (columns.length) timer = setTimeout(next, 50);
    };
    let timer = setTimeout(next, 300);
    return () => clearTimeout(timer);
  }, [table]);
}

function Totals({ table, columns, shown }: { table: Table; columns: Columns; shown: number }) {
  return (table.footer ?? []).map((texts, at) => (
    <div key={at} class="row total" role="row" aria-rowindex={shown + 2 + at}>
      {columns.shown.map((of) => (
        <div key={of.key} role="gridcell" class={alignment(of)}>
          <Cut text={texts[table.columns.indexOf(of)] ?? ""} />
        </div>
      ))}
    </div>
  ));
}

/** A table or tree with its toolbar, and details of the selected row. */
export function Grid({ table, id, label, height, selection, detail }: Props) {
  const own = useId();
  const sort = param(`${id}.sort`);
  const query = param(`${id}.q`);
  const [folded, setFolded] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  const columns = useColumns(table, id);
  const rows = useRows(table, sort.value, query, folded);
  const { shown, tree } = rows;
  const shownKeys = columns.shown.map((of) => of.key).join();
  const view = useWindow(scroller, shown.length, shownKeys);
  const [chosen, choose] = useChosen(table, selection);
  const cursor = useCursor({ rows, columns, view, chosen, choose, selects: !!selection });
  const widths = useMemo(() => tracks(table, columns.shown, view.printing), [table, shownKeys, view.printing]);
  usePrepared(table);

  const drawn = shown.subarray(view.from, view.to);
  const focus = () => scroller.current?.focus();
  const footers = table.footer?.length ?? 0;
  const high = height ?? (table.rows <= SHOWN_WHOLE ? table.rows : 0);
  return (
    <div class="grid-block">
      <Toolbar
        table={table}
        name={id}
        query={query}
        rows={rows}
        columns={columns}
        folded={folded}
        setFolded={setFolded}
        focusRows={focus}
      />
      <div class="beside">
        <div class={view.more ? "grid-frame more" : "grid-frame"}>
          <div
            ref={scroller}
            class={high ? "grid" : "grid tall"}
            role={tree ? "treegrid" : "grid"}
            aria-label={label}
            aria-rowcount={shown.length + 1 + footers}
            aria-readonly="true"
            aria-activedescendant={drawn.includes(cursor.row) ? `${own}-${cursor.row}` : undefined}
            tabIndex={0}
            style={{
              "--columns": widths.template,
              "--least": widths.least,
              "--rows": String(high + footers),
              zoom: widths.zoom,
            }}
            onKeyDown={cursor.press}
            onClick={cursor.click}
            onDblClick={cursor.doubleClick}
          >
            <div class="row heading" role="row" aria-rowindex={1}>
              {columns.shown.map((of) => (
                <Heading key={of.key} of={of} sort={sort.value} pick={(next) => (sort.value = next)} />
              ))}
            </div>
            <div class="rows" role="rowgroup" style={view.printing ? undefined : { height: `${shown.length * ROW}px` }}>
              <div role="presentation" style={{ transform: `translateY(${view.from * ROW}px)` }}>
                {Array.from(drawn, (row, at) => (
                  <Row
                    key={row}
                    table={table}
                    columns={columns.shown}
                    rows={rows}
                    row={row}
                    at={view.from + at}
                    id={own}
                    active={row === cursor.row}
                    chosen={row === chosen}
                  />
                ))}
              </div>
            </div>
            <Totals table={table} columns={columns} shown={shown.length} />
          </div>
        </div>
        {chosen >= 0 && detail?.(chosen, () => (choose(-1), focus()))}
      </div>
      {!shown.length && !footers && <p class="none">{rows.mask ? "No row matches the filter." : "There are no rows."}</p>}
      {view.printing && view.to < shown.length && (
        <p class="none">
          The first {view.to} of {shown.length.toLocaleString("en")} rows.
        </p>
      )}
    </div>
  );
}
