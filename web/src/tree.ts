/** Trees as preorder rows with depths. Each step is linear in the number of rows, so that 100,000 take milliseconds. */

/** The shape of a tree; arrays are by row. Skipped rows are not part of it: their children are one level up. */
export interface Tree {
  /** The rows of the tree in preorder. */
  rows: Int32Array;
  /** -1 for a root. */
  parent: Int32Array;
  /** The depth without skipped rows, from 0. */
  level: Int32Array;
  /** One past the last row of the subtree. */
  end: Int32Array;
  /** The number of rows of the subtree, with its root. */
  size: Int32Array;
}

/** The tree of rows with these depths, without those for which `skip` holds. */
export function treeOf(depth: ArrayLike<number>, skip: (row: number) => boolean = () => false): Tree {
  const count = depth.length;
  const parent = new Int32Array(count).fill(-1);
  const level = new Int32Array(count);
  const end = new Int32Array(count).fill(count);
  const size = new Int32Array(count);
  const rows: number[] = [];
  const above: number[] = []; // the rows that the current one is in, with those to be skipped
  for (let row = 0; row < count; row++) {
    while (above.length && depth[above.at(-1)!]! >= depth[row]!) end[above.pop()!] = row;
    const outer = above.at(-1) ?? -1;
    const skipped = outer >= 0 && skip(outer);
    parent[row] = skipped ? parent[outer]! : outer;
    level[row] = outer < 0 ? 0 : level[outer]! + (skipped ? 0 : 1);
    if (!skip(row)) rows.push(row);
    above.push(row);
  }
  for (let at = rows.length - 1; at >= 0; at--) {
    const row = rows[at]!;
    const outer = parent[row]!;
    size[row]! += 1;
    if (outer >= 0) size[outer]! += size[row]!;
  }
  return { rows: Int32Array.from(rows), parent, level, end, size };
}

/** The rows in preorder with siblings in the order in which they come in `order`, which lists all rows. */
export function sortTree(tree: Tree, order: ArrayLike<number>): Int32Array {
  const { rows, parent, size } = tree;
  const place = new Int32Array(size.length); // of a row in the result
  const next = new Int32Array(size.length + 1); // where the next child of a row goes; of roots, under the last index
  const root = size.length;
  // Children per parent, as ranges of one array, so that parents can place their children before these place theirs.
  const starts = new Int32Array(size.length + 2);
  for (const row of rows) starts[(parent[row]! < 0 ? root : parent[row]!) + 1]!++;
  for (let at = 1; at < starts.length; at++) starts[at]! += starts[at - 1]!;
  const children = new Int32Array(rows.length);
  const filled = starts.slice();
  for (let at = 0; at < order.length; at++) {
    const row = order[at]!;
    if (size[row]) children[filled[parent[row]! < 0 ? root : parent[row]!]!++] = row;
  }
  const result = new Int32Array(rows.length);
  const put = (outer: number, from: number) => {
    next[outer] = from;
    for (let at = starts[outer]!; at < starts[outer + 1]!; at++) {
      const row = children[at]!;
      place[row] = next[outer]!;
      result[next[outer]!] = row;
      next[outer]! += size[row]!;
    }
  };
  put(root, 0);
  for (const row of rows) put(row, place[row]! + 1);
  return result;
}

/** The rows that are shown: those of `order` whose ancestors are all open, and which are in `kept` if that is given. */
export function shownRows(tree: Tree, order: Int32Array, open: Uint8Array, kept?: Uint8Array): Int32Array {
  const shown = new Int32Array(order.length);
  let count = 0;
  for (let at = 0; at < order.length; ) {
    const row = order[at]!;
    const wanted = !kept || kept[row];
    if (wanted) shown[count++] = row;
    at += wanted && open[row] ? 1 : tree.size[row]!;
  }
  return shown.subarray(0, count);
}

/** What a filter leaves of a tree. */
export interface Kept {
  /** Matches, the rows above them, and what is in a match that has no other match in it. */
  rows: Uint8Array;
  /** For each row, the number of matches below it. */
  below: Int32Array;
}

/** What is kept of a tree if the rows of `mask` match. */
export function keep(tree: Tree, mask: Uint8Array): Kept {
  const count = mask.length;
  const before = new Int32Array(count + 1);
  for (let row = 0; row < count; row++) before[row + 1] = before[row]! + mask[row]!;
  const rows = new Uint8Array(count);
  const below = new Int32Array(count);
  let inside = 0; // rows before this one are in a match
  for (const row of tree.rows) {
    below[row] = before[tree.end[row]!]! - before[row + 1]!;
    if (mask[row] && !below[row]) inside = Math.max(inside, tree.end[row]!);
    if (mask[row] || below[row] || row < inside) rows[row] = 1;
  }
  return { rows, below };
}

/** Opens the rows of the upper levels, as many as can be shown in about `limit` rows; runs stay closed. */
export function openAtFirst(tree: Tree, runs: (row: number) => boolean, limit: number): Uint8Array {
  const widths: number[] = [];
  let hidden = 0; // rows before this one are in a run
  for (const row of tree.rows) {
    if (row < hidden) continue;
    widths[tree.level[row]!] = (widths[tree.level[row]!] ?? 0) + 1;
    if (runs(row)) hidden = tree.end[row]!;
  }
  let levels = 1;
  for (let total = (widths[0] ?? 0) + (widths[1] ?? 0); total + (widths[levels + 1] ?? limit) <= limit; levels++) {
    total += widths[levels + 1]!;
  }
  const open = new Uint8Array(tree.size.length);
  for (const row of tree.rows) open[row] = Number(tree.level[row]! < levels && !runs(row));
  return open;
}

/** Opens the rows above `row`, in place. */
export function reveal(tree: Tree, open: Uint8Array, row: number): void {
  for (let outer = tree.parent[row]!; outer >= 0; outer = tree.parent[outer]!) open[outer] = 1;
}
