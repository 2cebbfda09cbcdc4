import { expect, test } from "vitest";
import { keep, openAtFirst, reveal, shownRows, sortTree, treeOf } from "../src/tree";

//             0 root
//             1   a        2 a.x    3 a.y
//             4   b ×2     5 b.0    6 b.0.x   7 b.1   8 b.1.x
//             9   c
const DEPTH = [0, 1, 2, 2, 1, 2, 3, 2, 3, 1];
const isRun = (row: number) => row === 4;
const all = (tree: { size: Int32Array }) => new Uint8Array(tree.size.length).fill(1);

test("parents, levels and subtrees follow from depths", () => {
  const tree = treeOf(DEPTH);
  expect([...tree.parent]).toEqual([-1, 0, 1, 1, 0, 4, 5, 4, 7, 0]);
  expect([...tree.end]).toEqual([10, 4, 3, 4, 9, 7, 7, 9, 9, 10]);
  expect([...tree.size]).toEqual([10, 3, 1, 1, 5, 2, 1, 2, 1, 1]);
});

test("the children of a skipped run are one level up", () => {
  const tree = treeOf(DEPTH, isRun);
  expect([...tree.rows]).toEqual([0, 1, 2, 3, 5, 6, 7, 8, 9]);
  expect(tree.parent[5]).toBe(0);
  expect(tree.level[5]).toBe(1);
  expect(tree.level[6]).toBe(2);
  expect(tree.size[0]).toBe(9);
});

test("siblings are sorted within their parent", () => {
  const tree = treeOf(DEPTH);
  const backwards = DEPTH.map((_, row) => row).reverse();
  expect([...sortTree(tree, backwards)]).toEqual([0, 9, 4, 7, 8, 5, 6, 1, 3, 2]);
  expect([...sortTree(tree, [...DEPTH.keys()])]).toEqual([...tree.rows]);
  expect([...sortTree(treeOf(DEPTH, isRun), backwards)]).toEqual([0, 9, 7, 8, 5, 6, 1, 3, 2]);
});

test("several roots are sorted too", () => {
  expect([...sortTree(treeOf([0, 1, 0, 1]), [3, 2, 1, 0])]).toEqual([2, 3, 0, 1]);
});

test("rows are shown if all above them are open", () => {
  const tree = treeOf(DEPTH);
  const open = all(tree);
  expect([...shownRows(tree, tree.rows, open)]).toEqual([...tree.rows]);
  open[4] = 0;
  expect([...shownRows(tree, tree.rows, open)]).toEqual([0, 1, 2, 3, 4, 9]);
  reveal(tree, open, 8);
  expect([...shownRows(tree, tree.rows, open)]).toContain(8);
});

test("a filter keeps matches, the rows above them and what is in the lowest ones", () => {
  const tree = treeOf(DEPTH);
  const mask = new Uint8Array(10);
  mask[5] = mask[0] = 1;
  const kept = keep(tree, mask);
  expect([...kept.rows]).toEqual([1, 0, 0, 0, 1, 1, 1, 0, 0, 0]);
  expect([...kept.below]).toEqual([1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
  expect([...shownRows(tree, tree.rows, all(tree), kept.rows)]).toEqual([0, 4, 5, 6]);
});

test("levels are opened while they fit; runs stay closed", () => {
  const tree = treeOf(DEPTH);
  expect([...openAtFirst(tree, isRun, 4)]).toEqual([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  expect([...shownRows(tree, tree.rows, openAtFirst(tree, isRun, 6))]).toEqual([0, 1, 2, 3, 4, 9]);
});

test("an empty tree has no rows", () => {
  const tree = treeOf([]);
  expect(shownRows(tree, sortTree(tree, []), openAtFirst(tree, isRun, 9)).length).toBe(0);
});

test("random trees: sorting keeps each subtree together, and only reorders", () => {
  for (let time = 0; time < 50; time++) {
    const depth = [0];
    while (depth.length < 60) depth.push(Math.floor(Math.random() * (depth.at(-1)! + 2)));
    const tree = treeOf(depth, (row) => row % 7 === 3);
    const keys = depth.map(() => Math.random());
    const order = depth.map((_, row) => row).sort((a, b) => keys[a]! - keys[b]!);
    const result = [...sortTree(tree, order)];
    expect([...result].sort((a, b) => a - b)).toEqual([...tree.rows]);
    result.forEach((row, at) => {
      const inside = result.slice(at, at + tree.size[row]!);
      expect(inside.every((one) => one >= row && one < tree.end[row]!)).toBe(true);
      const siblings = inside.slice(1).filter((one) => tree.parent[one] === row);
      expect(siblings).toEqual([...siblings].sort((a, b) => keys[a]! - keys[b]!));
    });
  }
});
