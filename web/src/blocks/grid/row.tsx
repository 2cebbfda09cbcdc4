/** One row of a table or tree. */

import { column, valueAt } from "../../columns";
import type { Column, Table } from "../../payload";
import { Content } from "./cell";
import type { Rows } from "./rows";
import { INDENT } from "./widths";

interface Props {
  table: Table;
  columns: Column[];
  rows: Rows;
  row: number;
  /** Its place among the rows that are shown. */
  at: number;
  /** The id of the table's elements. */
  id: string;
  /** Whether the keyboard is here. */
  active: boolean;
  chosen: boolean;
}

function Name({ table, columns, rows, row, active }: Props) {
  const { tree, kept } = rows;
  const differs = column(table, "differs");
  const remark = differs && valueAt(differs, row);
  const canOpen = rows.canOpen(row);
  const inside = kept && canOpen && !rows.isOpen(row) ? kept.below[row]! : 0;
  return (
    <div role="gridcell" style={tree ? { paddingLeft: `${4 + tree.level[row]! * INDENT}px` } : undefined}>
      {tree && (
        <span class="twisty" data-twisty={canOpen ? "" : undefined} aria-hidden="true">
          {canOpen && (rows.isOpen(row) ? "▾" : "▸")}
        </span>
      )}
      <Content of={columns[0]!} row={row} reachable={active} />
      {rows.isRun(row) && <span class="repeats">×{table.run![row]}</span>}
      {remark && (
        <span class="remark" title={String(remark)}>
          {remark}
        </span>
      )}
      {inside > 0 && <span class="inside">{inside === 1 ? "1 match" : `${inside.toLocaleString("en")} matches`}</span>}
    </div>
  );
}

/** A row with its cells. */
export function Row(props: Props) {
  const { columns, rows, row, active, chosen } = props;
  const { tree, mask } = rows;
  const marks = ["row", chosen && "chosen", active && "active", mask && !mask[row] && "dim"];
  return (
    <div
      role="row"
      id={`${props.id}-${row}`}
      data-row={row}
      class={marks.filter(Boolean).join(" ")}
      aria-rowindex={props.at + 2}
      aria-level={tree ? tree.level[row]! + 1 : undefined}
      aria-expanded={rows.canOpen(row) ? rows.isOpen(row) : undefined}
      aria-selected={chosen || undefined}
    >
      <Name {...props} />
      {columns.slice(1).map((of) => (
        <div key={of.key} role="gridcell" class={of.numbers || of.right ? "number" : undefined}>
          <Content of={of} row={row} reachable={active} />
        </div>
      ))}
    </div>
  );
}
