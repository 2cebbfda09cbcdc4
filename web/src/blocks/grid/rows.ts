/** Which rows of a table are shown, in which order: sorting, filter, folding of repeats and open rows together. */

import type { Signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { column, ordered, ranksOf } from "../../columns";
import { find, type Found } from "../../filter";
import type { Table } from "../../payload";
import { keep, openAtFirst, reveal, shownRows, sortTree, treeOf, type Kept, type Tree } from "../../tree";

/** As many rows of a tree are open at first. */
const FIRST_ROWS = 40;
/** Up to this many matches, those in runs are shown at once; otherwise runs stay closed and name their number. */
const FEW_MATCHES = 200;

/** The rows that are shown, and what changes them. */
export interface Rows {
  shown: Int32Array;
  tree: Tree | null;
  /** What the filter says about its query. */
  found: Found | null;
  /** 1 for each row that matches the filter; null if there is none. */
  mask: Uint8Array | null;
  kept: Kept | null;
  /** All rows in their order, without those of runs, that match the filter. */
  matches: () => Int32Array;
  matchCount: number;
  /** The number of rows without a filter; a run is not counted, the rows in it are. */
  total: number;
  isRun: (row: number) => boolean;
  isOpen: (row: number) => boolean;
  canOpen: (row: number) => boolean;
  toggle: (row: number) => void;
  /** Opens or closes every row. */
  setAll: (open: boolean) => void;
  openSiblings: (row: number) => void;
  /** Makes a row visible. */
  reveal: (row: number) => void;
}

/** The column and direction that a sort parameter names: `time`, or `-time` for the largest first. */
export function parseSort(sort: string): { key: string; descending: boolean } {
  return sort.startsWith("-") ? { key: sort.slice(1), descending: true } : { key: sort, descending: false };
}

function orderOf(table: Table, tree: Tree | null, sort: string, folded: boolean): Int32Array {
  const { key, descending } = parseSort(sort);
  const by = key ? column(table, key) : undefined;
  const own = !folded && table.order ? ordered(Int32Array.from(table.order), false) : undefined;
  const order = by ? ordered(ranksOf(by), descending) : own;
  if (tree) return order ? sortTree(tree, order) : tree.rows;
  return order ?? Int32Array.from({ length: table.rows }, (_, row) => row);
}

function count(rows: ArrayLike<number>, holds: (row: number) => unknown): number {
  let found = 0;
  for (let at = 0; at < rows.length; at++) if (holds(rows[at]!)) found++;
  return found;
}

/** The rows of a table for a sort parameter and a query; `folded` is whether runs are rows of their own. */
export function useRows(table: Table, sort: string, query: Signal<string>, folded: boolean): Rows {
  const isRun = (row: number) => (table.run?.[row] ?? 1) > 1;
  const [version, setVersion] = useState(0);
  const tree = useMemo(() => (table.depth ? treeOf(table.depth, folded ? undefined : isRun) : null), [table, folded]);
  const order = useMemo(() => orderOf(table, tree, sort, folded), [table, tree, sort, folded]);
  const found = useMemo(() => {
    const result = find(table, query.value);
    if (result?.mask && table.run) for (let row = 0; row < table.rows; row++) if (isRun(row)) result.mask[row] = 0;
    return result;
  }, [table, query.value]);
  const mask = found?.mask ?? null;
  const total = useMemo(() => count(order, (row) => !isRun(row)), [order]);
  const matchCount = useMemo(() => (mask ? count(order, (row) => mask[row]) : total), [order, mask]);
  const kept = useMemo(() => (tree && mask ? keep(tree, mask) : null), [tree, mask]);
  // The reader's own choice of open rows returns when the filter is cleared.
  const usual = useMemo(() => {
    const first = table.depth ? treeOf(table.depth) : null;
    return first ? openAtFirst(first, isRun, FIRST_ROWS) : new Uint8Array(0);
  }, [table]);
  const filtered = useMemo(() => {
    if (!tree || !kept) return null;
    const opened = new Uint8Array(table.rows);
    for (const row of tree.rows) if (kept.below[row] && (matchCount <= FEW_MATCHES || !isRun(row))) opened[row] = 1;
    return opened;
  }, [kept]);
  const open = filtered ?? usual;
  const shown = useMemo(() => {
    if (tree) return shownRows(tree, order, open, kept?.rows);
    return mask ? order.filter((row) => mask[row]) : order;
  }, [tree, order, open, kept, mask, version]);

  const change = (act: () => void) => {
    act();
    setVersion((one) => one + 1);
  };
  return {
    shown,
    tree,
    found,
    mask,
    kept,
    matches: () => order.filter((row) => !isRun(row) && (!mask || mask[row])),
    matchCount,
    total,
    isRun,
    isOpen: (row) => open[row] === 1,
    canOpen: (row) => tree !== null && tree.size[row]! > 1,
    toggle: (row) => change(() => (open[row] = 1 - open[row]!)),
    setAll: (all) =>
      change(() => {
        open.fill(Number(all));
        if (tree?.rows.length && tree.size[tree.rows[0]!] === tree.rows.length) open[tree.rows[0]!] = 1;
      }),
    openSiblings: (row) =>
      change(() => {
        for (const one of shown) if (tree?.parent[one] === tree?.parent[row]) open[one] = 1;
      }),
    reveal: (row) => {
      if (!tree || (kept && !kept.rows[row])) query.value = "";
      if (tree) change(() => reveal(tree, kept && kept.rows[row] ? open : usual, row));
    },
  };
}
