/** Which columns of a table are shown. */

import { column } from "../../columns";
import type { Column, Table } from "../../payload";
import { param } from "../../state";

/** The columns of a table that are shown, and what shows or hides others. */
export interface Columns {
  /** The name first. */
  shown: Column[];
  /** Those that can be shown or hidden. */
  optional: Column[];
  isShown: (of: Column) => boolean;
  show: (of: Column, shown: boolean) => void;
}

/** On a narrow page, which shows one or two columns beside the name, numbers come before text. */
function figuresFirst(columns: Column[]): Column[] {
  if (innerWidth >= 480) return columns;
  const isEarly = (of: Column) => of.numbers || of.link; // what it is, and figures
  return [...columns.filter(isEarly), ...columns.filter((of) => !isEarly(of))];
}

/** The columns of the table with this id; the address keeps those that are not as usual. */
export function useColumns(table: Table, id: string): Columns {
  const toggled = param(`${id}.columns`);
  const keys = toggled.value ? toggled.value.split(",") : [];
  const isShown = (of: Column) => !!of.hidden === keys.includes(of.key);
  const remark = column(table, "differs"); // shown after the name
  const [name, ...optional] = table.columns.filter((of) => of !== remark);
  return {
    shown: name ? [name, ...figuresFirst(optional.filter(isShown))] : [],
    optional,
    isShown,
    show: (of, shown) => {
      const rest = keys.filter((key) => key !== of.key);
      toggled.value = (shown === !of.hidden ? rest : [...rest, of.key]).join(",");
    },
  };
}
