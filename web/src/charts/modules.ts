/** The rows of the module tree by name, path and class. */

import { column, textAt } from "../columns";
import type { Table } from "../payload";
import { treeOf, type Tree } from "../tree";
import { byAmount } from "./colours";

/** Classes that only hold others: their name says nothing about what is inside, so they have no colour. */
const CONTAINERS = new Set(["Sequential", "ModuleList", "ModuleDict"]);

/** The module tree of a table. */
export class Modules {
  readonly tree: Tree;
  /** The colours of the classes with the most modules. */
  readonly colours: Map<string, string>;

  constructor(readonly table: Table) {
    this.tree = treeOf(table.depth ?? []);
    const counts = new Map<string, number>();
    for (let row = 1; row < table.rows; row++) {
      const name = this.className(row);
      if (!CONTAINERS.has(name) && (table.run?.[row] ?? 1) === 1) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    this.colours = byAmount(counts);
  }

  private text(key: string, row: number): string {
    const of = column(this.table, key);
    return of ? textAt(of, row) : "";
  }

  /** `layer1`, `0–31 ×32`; the root is called by its class. */
  name(row: number): string {
    return this.text(this.tree.parent[row]! < 0 ? "class" : "name", row);
  }

  className(row: number): string {
    return this.text("class", row);
  }

  /** The path of a module; undefined for a row that stands for several. */
  module(row: number): string | undefined {
    const { words, codes } = column(this.table, "path") ?? {};
    return words?.[codes?.[row] ?? -1];
  }

  /** The path of a row, also of one that stands for several. */
  path(row: number): string {
    const outer = this.tree.parent[row]!;
    return this.module(row) ?? (outer > 0 ? `${this.path(outer)}.${this.name(row)}` : this.name(row));
  }

  /** What names a row in a link. */
  key(row: number): string {
    return this.module(row) ?? `#${row}`;
  }

  /** The row that a link names; -1 if there is none. */
  row(key: string): number {
    if (key.startsWith("#")) return Number(key.slice(1)) < this.table.rows ? Number(key.slice(1)) : -1;
    const { words = [], codes = [] } = column(this.table, "path") ?? {};
    const code = words.indexOf(key);
    return code < 0 ? -1 : codes.indexOf(code);
  }

  /** The module around a row, -1 for the root. */
  around(row: number): number {
    const outer = this.tree.parent[row]!;
    return outer >= 0 && (this.table.run?.[outer] ?? 1) > 1 ? this.around(outer) : outer;
  }

  /** The modules around a row, from the root, and the row itself. */
  trail(row: number): number[] {
    const outer = this.around(row);
    return outer < 0 ? [row] : [...this.trail(outer), row];
  }
}
