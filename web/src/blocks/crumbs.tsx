/** The way from the root to the module that a map is zoomed to. */

import { Fragment } from "preact";
import type { Modules } from "../charts/modules";
import { Go } from "../go";
import type { Page } from "../payload";

interface Props {
  /** The rows from the root on; the last one is where the map is. */
  rows: number[];
  modules: Modules;
  page: Page;
  enter: (row: number) => void;
}

/** Buttons that lead up, and a link to the module in the tree. */
export function Crumbs({ rows, modules, page, enter }: Props) {
  const here = rows.at(-1)!;
  const path = modules.module(here);
  return (
    <nav class="map-crumbs" aria-label="Zoomed to">
      <button type="button" title="Backspace or Esc" onClick={() => enter(rows.at(-2) ?? 0)}>
        ↑ up
      </button>
      {rows.slice(0, -1).map((row) => (
        <Fragment key={row}>
          <button type="button" class="map-crumb" onClick={() => enter(row)}>
            {modules.name(row)}
          </button>
          <span aria-hidden="true">›</span>
        </Fragment>
      ))}
      <b>{modules.name(here)}</b>
      {path !== undefined && (
        <Go page={page} to="modules" params={{ module: path }}>
          Show in the tree
        </Go>
      )}
    </nav>
  );
}
