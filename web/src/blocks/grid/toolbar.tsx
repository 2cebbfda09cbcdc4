/** What stands above a table: filter, number of rows, columns to show, folding, and CSV. */

import type { Signal } from "@preact/signals";
import { useId, useMemo, useRef } from "preact/hooks";
import { saveCsv } from "../../csv";
import { example } from "../../filter";
import type { Table } from "../../payload";
import type { Columns } from "./chooser";
import type { Rows } from "./rows";

/** Smaller tables are read at a glance, without a filter. */
const FILTERED = 8;

interface Props {
  table: Table;
  name: string;
  query: Signal<string>;
  rows: Rows;
  columns: Columns;
  folded: boolean;
  setFolded: (folded: boolean) => void;
  /** Moves the focus to the rows. */
  focusRows: () => void;
}

function ColumnChooser({ optional, isShown, show }: Columns) {
  const details = useRef<HTMLDetailsElement>(null);
  const close = () => details.current && (details.current.open = false);
  const leave = (event: FocusEvent) => {
    // Later, because Chromium crashes if what is being clicked disappears while the focus moves.
    if (event.relatedTarget && !details.current?.contains(event.relatedTarget as Node)) setTimeout(close);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    close();
    details.current?.querySelector("summary")?.focus();
  };
  const hidden = optional.filter((of) => !isShown(of)).length;
  return (
    <details class="chooser" ref={details} onFocusOut={leave} onKeyDown={press}>
      <summary>Columns{hidden > 0 && <small> {hidden} hidden</small>}</summary>
      <div role="group" aria-label="Columns to show" tabIndex={-1}>
        {optional.map((of) => (
          <label key={of.key}>
            <input type="checkbox" checked={isShown(of)} onChange={(event) => show(of, event.currentTarget.checked)} />
            {of.title}
          </label>
        ))}
      </div>
    </details>
  );
}

/** The number of rows: `63 of 151 rows`. */
function rowsText({ matchCount, total, mask }: Rows): string {
  const noun = total === 1 ? "row" : "rows";
  return `${mask ? `${matchCount.toLocaleString("en")} of ` : ""}${total.toLocaleString("en")} ${noun}`;
}

function Filter({ table, query, rows, focusRows }: Props) {
  const id = useId();
  const hint = useMemo(() => example(table) || "words", [table]);
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape" && query.value) query.value = "";
    else if (event.key === "Escape" || event.key === "ArrowDown" || event.key === "Enter") focusRows();
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        type="search"
        data-filter=""
        aria-label="Filter rows"
        aria-describedby={id}
        aria-invalid={!!rows.found?.error}
        placeholder={`Filter: ${hint}`}
        title="words, /regex/, column:text, column>number; a leading - excludes"
        spellcheck={false}
        value={query.value}
        onInput={(event) => (query.value = event.currentTarget.value)}
        onKeyDown={press}
      />
      <p id={id} class={rows.found?.error ? "says wrong" : "says"} role="status">
        {rows.found?.error || rows.found?.note}
      </p>
      <span class="row-count" role="status">
        {rowsText(rows)}
      </span>
    </>
  );
}

/** The tools of a table. */
export function Toolbar(props: Props) {
  const { table, rows, columns } = props;
  return (
    <div class="tools">
      {(table.rows > FILTERED || props.query.value) && <Filter {...props} />}
      {rows.tree && (
        <span class="joined">
          <button type="button" onClick={() => rows.setAll(true)}>
            Expand all
          </button>
          <button type="button" onClick={() => rows.setAll(false)}>
            Collapse all
          </button>
        </span>
      )}
      {table.run?.some((run) => run > 1) && (
        <label title="Equal siblings share one row, which opens to show them">
          <input
            type="checkbox"
            checked={props.folded}
            onChange={(event) => props.setFolded(event.currentTarget.checked)}
          />
          Fold repeats
        </label>
      )}
      <span class="end">
        {columns.optional.length > 0 && <ColumnChooser {...columns} />}
        <button
          type="button"
          title="Save the rows that match, with all columns"
          onClick={() => saveCsv(table, rows.matches(), props.name)}
        >
          CSV
        </button>
      </span>
    </div>
  );
}
