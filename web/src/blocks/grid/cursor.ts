/** The row that the keyboard is at, and what keys and clicks do there. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { addressOf, follow } from "./cell";
import type { Columns } from "./chooser";
import type { Rows } from "./rows";
import type { Window } from "./window";

/** While an arrow key is held, the selection waits this long: browsers limit how often the address may change. */
const SETTLE_MS = 150;

/** The row that the keyboard is at, and the handlers of the table's events. */
export interface Cursor {
  /** -1 if no rows are shown. */
  row: number;
  /** Its place among the rows that are shown. */
  place: number;
  press: (event: KeyboardEvent) => void;
  click: (event: MouseEvent) => void;
  doubleClick: (event: MouseEvent) => void;
}

interface Around {
  rows: Rows;
  columns: Columns;
  view: Window;
  chosen: number;
  /** Selects a row, or none for -1. */
  choose: (row: number) => void;
  /** Whether rows can be selected. */
  selects: boolean;
}

/** The place of a row, or of the nearest one above it in the tree that is shown; the first if there is none. */
function placeOf({ shown, tree }: Rows, row: number): number {
  for (let one = row; one >= 0; one = tree ? tree.parent[one]! : -1) {
    const place = shown.indexOf(one);
    if (place >= 0) return place;
  }
  return 0;
}

const rowAt = (target: Element) => Number(target.closest<HTMLElement>("[data-row]")?.dataset.row ?? -1);

/** Follows the keyboard and clicks in a table. */
export function useCursor({ rows, columns, view, chosen, choose, selects }: Around): Cursor {
  const { shown, tree } = rows;
  const [cursor, setCursor] = useState(-1);
  const [wanted, setWanted] = useState(-1); // a row to bring into sight
  const settling = useRef<ReturnType<typeof setTimeout>>(undefined);
  const place = placeOf(rows, cursor);
  const row = shown[place] ?? -1;

  useLayoutEffect(() => {
    if (chosen < 0) return;
    if (!shown.includes(chosen)) rows.reveal(chosen);
    setCursor(chosen);
    setWanted(chosen);
  }, [chosen]);
  useLayoutEffect(() => {
    const at = wanted < 0 ? -1 : shown.indexOf(wanted);
    if (at < 0) return;
    view.bring(at);
    setWanted(-1);
  }, [wanted, shown]);

  const move = (at: number) => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, at))];
    if (next === undefined) return;
    setCursor(next);
    setWanted(next);
    clearTimeout(settling.current);
    if (selects) settling.current = setTimeout(() => choose(next), SETTLE_MS);
  };
  const pick = (one: number) => {
    clearTimeout(settling.current);
    setCursor(one);
    choose(one);
  };
  const enter = () => {
    const address = columns.shown.map((of) => addressOf(of, row)).find(Boolean);
    if (rows.canOpen(row)) rows.toggle(row);
    else if (selects) pick(row);
    else if (address) follow(address);
  };
  const keys: Record<string, (() => void) | false> = {
    ArrowDown: () => move(place + 1),
    ArrowUp: () => move(place - 1),
    PageDown: () => move(place + view.page - 1),
    PageUp: () => move(place - view.page + 1),
    Home: () => move(0),
    End: () => move(shown.length - 1),
    Enter: enter,
    " ": enter,
    Escape: () => choose(-1),
  };
  if (tree && row >= 0) {
    const [canOpen, isOpen, parent] = [rows.canOpen(row), rows.isOpen(row), tree.parent[row]!];
    keys["*"] = () => rows.openSiblings(row);
    // Where there is nothing to open or close, these keys scroll sideways.
    keys.ArrowRight = canOpen && (isOpen ? () => move(place + 1) : () => rows.toggle(row));
    keys.ArrowLeft = canOpen && isOpen ? () => rows.toggle(row) : parent >= 0 && (() => move(shown.indexOf(parent)));
  }

  return {
    row,
    place,
    press: (event) => {
      const act = keys[event.key];
      const onControl = event.target !== event.currentTarget && /^(Enter| )$/.test(event.key); // a link or heading
      if (!act || onControl || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    },
    click: (event) => {
      const target = event.target as Element;
      const one = rowAt(target);
      if (one < 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const address = target.closest("a")?.getAttribute("href");
      if (address) {
        event.preventDefault();
        follow(address);
      } else if (target.closest("[data-twisty]")) {
        setCursor(one);
        rows.toggle(one);
      } else pick(one);
    },
    doubleClick: (event) => {
      const target = event.target as Element;
      const one = rowAt(target);
      if (one >= 0 && rows.canOpen(one) && !target.closest("[data-twisty]")) rows.toggle(one);
    },
  };
}
