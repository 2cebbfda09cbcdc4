/** All that a table says about one row, beside the table, so that nothing depends on which columns are shown. */

import { textAt, valueAt } from "../../columns";
import type { Table } from "../../payload";
import { Hint } from "../../tip";

/** The columns of a row with their values and where these come from. */
export function Detail({ table, row, title, close }: { table: Table; row: number; title: string; close: () => void }) {
  return (
    <aside class="detail" aria-label={`Details of ${title}`}>
      <header>
        <h3>{title}</h3>
        <button type="button" class="quiet" aria-label="Close details" onClick={close}>
          ✕
        </button>
      </header>
      <dl>
        {table.columns.filter((of) => of.key !== "differs" || valueAt(of, row) !== null).map((of) => (
          <div key={of.key}>
            <dt>
              <Hint text={of.how}>{of.title}</Hint>
            </dt>
            <dd>
              {textAt(of, row)}
              {of.method && <small>{of.method}</small>}
            </dd>
          </div>
        ))}
      </dl>
    </aside>
  );
}
