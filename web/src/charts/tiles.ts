/** Layouts of a tree as areas: an icicle in rows by level, or a treemap of nested boxes. */

import type { Column } from "../payload";
import type { Tree } from "../tree";

/** What a layout is made from; `run` above 1 marks rows that stand for equal siblings, which are their children. */
export interface Areas {
  tree: Tree;
  amounts: Float64Array;
  run: ArrayLike<number>;
}

/** A box: of a row, or of `more` modules inside that row which are too small to draw. */
export interface Tile {
  row: number;
  more: number;
  /** The index of the tile around it, -1 for the first. */
  parent: number;
  level: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Narrower boxes than this, in pixels, are not drawn. */
const LEAST = 1.5;
/** Members of a run are drawn one by one from this width on. */
const MEMBER = 2;
/** A treemap is divided into at most about this many boxes. */
const MOST = 3000;
const HEAD = 18;

/** The amount of each row: its own number if it is known, else the sum of its children. */
export function amountsOf(tree: Tree, column: Column): Float64Array {
  const amounts = new Float64Array(tree.parent.length);
  for (let row = amounts.length - 1; row >= 0; row--) {
    const value = column.numbers?.[row] ?? null;
    if (value !== null) amounts[row] = Math.max(value, 0);
    const outer = tree.parent[row]!;
    if (outer >= 0) amounts[outer]! += amounts[row]!;
  }
  return amounts;
}

/** The rows directly inside a row; a run counts as its members if `members` holds for it. */
function inside(areas: Areas, row: number, members: (run: number) => boolean): number[] {
  const { tree, run } = areas;
  const rows: number[] = [];
  for (let child = row + 1; child < tree.end[row]!; child = tree.end[child]!) {
    if ((run[child] ?? 1) > 1 && members(child)) rows.push(...inside(areas, child, members));
    else rows.push(child);
  }
  return rows;
}

const sum = (amounts: Float64Array, rows: number[]) => rows.reduce((total, row) => total + amounts[row]!, 0);

/** Levels of boxes, each as wide as its share of the box above and one high; what a module does itself stays free. */
export function icicle(areas: Areas, root: number, width: number): Tile[] {
  const { amounts, run } = areas;
  const tiles: Tile[] = [];
  const add = (row: number, more: number, parent: number, level: number, x: number, wide: number) =>
    tiles.push({ row, more, parent, level, x, y: level, width: wide, height: 1 }) - 1;
  const place = (row: number, parent: number, level: number, x: number, wide: number) => {
    const self = add(row, 0, parent, level, x, wide);
    if (level && run[row]! > 1) return; // its members are too narrow
    const per = wide / amounts[row]!; // pixels per unit, unless the children add up to more than their parent
    const rows = inside(areas, row, (group) => (amounts[group]! * per) / run[group]! >= MEMBER);
    const scale = wide / Math.max(amounts[row]!, sum(amounts, rows));
    let small = 0;
    let from = x;
    const gather = () => {
      if (x - from >= LEAST && small) add(row, small, self, level + 1, from, x - from);
      small = 0;
    };
    for (const child of rows) {
      const part = amounts[child]! * scale;
      if (part >= LEAST) {
        gather();
        place(child, self, level + 1, x, part);
        from = x + part;
      } else if (part > 0) small += 1;
      x += part;
    }
    gather();
  };
  if (amounts[root]! > 0) place(root, -1, 0, 0, width);
  return tiles;
}

/** The number of levels of tiles. */
export function levelsOf(tiles: Tile[]): number {
  return tiles.reduce((most, tile) => Math.max(most, tile.level + 1), 0);
}

type Rect = { x: number; y: number; width: number; height: number };

/** Divides a rectangle into parts with these areas, largest first, as near to squares as possible. */
export function squarify(areas: number[], { x, y, width, height }: Rect): Rect[] {
  const rects: Rect[] = [];
  for (let first = 0; first < areas.length;) {
    const side = Math.min(width, height);
    const worst = (total: number, most: number, least: number) =>
      Math.max((side * side * most) / (total * total), (total * total) / (side * side * least));
    let last = first + 1;
    let total = areas[first]!;
    while (last < areas.length) {
      const next = areas[last]!;
      if (worst(total + next, areas[first]!, next) > worst(total, areas[first]!, areas[last - 1]!)) break;
      total += next;
      last++;
    }
    const thick = side ? total / side : 0;
    let along = 0;
    for (; first < last; first++) {
      const long = thick ? areas[first]! / thick : 0;
      rects.push(
        width >= height
          ? { x, y: y + along, width: thick, height: long }
          : { x: x + along, y, width: long, height: thick },
      );
      along += long;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
  }
  return rects;
}

/** Boxes inside boxes, each as large as its share of the box around it. */
export function treemap(areas: Areas, root: number, width: number, height: number): Tile[] {
  const { amounts, run } = areas;
  const tiles: Tile[] = [];
  const least = (width * height) / MOST;
  const place = (row: number, parent: number, level: number, rect: Rect) => {
    const self = tiles.push({ row, more: 0, parent, level, ...rect }) - 1;
    const head = rect.height > 2 * HEAD && rect.width > 2 * HEAD ? HEAD : 2;
    const inner = { x: rect.x + 2, y: rect.y + head, width: rect.width - 4, height: rect.height - head - 2 };
    const room = inner.width * inner.height;
    if (inner.width < LEAST || inner.height < LEAST || room < 2 * least) return;
    const per = room / amounts[row]!;
    const rows = inside(areas, row, (group) => (amounts[group]! * per) / run[group]! >= least);
    const whole = Math.max(amounts[row]!, sum(amounts, rows));
    const sorted = rows.filter((child) => amounts[child]! > 0).sort((a, b) => amounts[b]! - amounts[a]!);
    const rest = whole - sum(amounts, sorted);
    const parts = [
      ...sorted.map((child) => (amounts[child]! * room) / whole),
      ...(rest > 0 ? [(rest * room) / whole] : []),
    ];
    squarify(parts, inner).forEach((part, i) => {
      const child = sorted[i];
      if (child === undefined || part.width < LEAST || part.height < LEAST || parts[i]! < least) return;
      place(child, self, level + 1, part);
    });
  };
  if (amounts[root]! > 0) place(root, -1, 0, { x: 0, y: 0, width, height });
  return tiles;
}

/** The tile that an arrow key leads to: the one around, the first inside, or the next of the same level. */
export function neighbour(tiles: Tile[], from: number, key: string): number | null {
  const tile = tiles[from]!;
  if (key === "ArrowUp") return tile.parent < 0 ? null : tile.parent;
  if (key === "ArrowDown") return tiles[from + 1]?.parent === from ? from + 1 : null;
  const by = key === "ArrowRight" ? 1 : -1;
  for (let at = from + by; at >= 0 && at < tiles.length; at += by) if (tiles[at]!.level === tile.level) return at;
  return null;
}
