/** How far a number is from others of its kind, measured so that a few outliers do not hide each other. */

function middle(sorted: Float64Array): number {
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** The median of numbers and their typical distance from it. */
interface Spread {
  median: number;
  /** The median absolute deviation, scaled to a standard deviation; 0 if most are zero. */
  distance: number;
  count: number;
}

/** The least distance that counts as typical, as a share of the median: nearly equal values have no outliers. */
const LEAST = 0.02;
/** Groups with fewer members than this have no typical value. */
const FEW = 5;

/** The median and spread of numbers, as `assay.checkpoint.statistics` finds outliers. */
export function spreadOf(values: number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  const median = middle(sorted);
  const distances = sorted.map((value) => Math.abs(value - median)).sort();
  return { median, distance: Math.max(1.4826 * middle(distances), LEAST * Math.abs(median)), count: values.length };
}

/** How far a value is above the median of its group, in typical distances; negative if it is below. */
export interface Deviation {
  by: number;
  median: number;
  group: string;
  count: number;
}

/** The groups a row may be compared with, the closest first: its family, then names with the same ending. */
export function groupsOf(name: string, family: string | null): string[] {
  const parts = name.replace(/\d+/g, "#").split(".");
  return [family ?? name, parts.slice(-2).join(".")];
}

const known = (value: number | null | undefined): value is number => Number.isFinite(value ?? NaN);

/** The deviation of each row from the first of its groups that is large enough; null if it is unknown. */
export function deviations(values: (number | null)[], groups: string[][]): (Deviation | null)[] {
  const members = new Map<string, number[]>();
  values.forEach((value, row) => {
    if (!known(value)) return;
    for (const group of new Set(groups[row])) {
      const others = members.get(group);
      if (others) others.push(value);
      else members.set(group, [value]);
    }
  });
  const spreads = new Map<string, Spread>();
  const spread = (group: string) =>
    spreads.get(group) ?? spreads.set(group, spreadOf(members.get(group)!)).get(group)!;
  return values.map((value, row) => {
    if (!known(value)) return null;
    const group = groups[row]!.find((one) => members.get(one)!.length >= FEW);
    if (group === undefined) return null; // too few to say what is usual
    const { median, distance, count } = spread(group);
    const off = value - median;
    const by = distance ? off / distance : Math.sign(off) * (off ? Infinity : 0);
    return { by, median, group, count };
  });
}

/** As many rows as can be told apart, and as many marks as a page draws at once. */
const MOST_ROWS = 400;

/** The rows to draw: all in their order, or those with the largest deviations. */
export function rowsToDraw(
  cells: (Deviation | null)[][],
  rows: number,
  byDeviation: boolean,
  most = MOST_ROWS,
): number[] {
  const worst = Float64Array.from({ length: rows }, (_, row) =>
    cells.reduce((largest, one) => Math.max(largest, Math.abs(one[row]?.by ?? 0)), 0),
  );
  const order = Array.from(worst.keys());
  if (!byDeviation && rows <= most) return order;
  const kept = order.sort((a, b) => worst[b]! - worst[a]! || a - b).slice(0, most);
  return byDeviation ? kept : kept.sort((a, b) => a - b);
}
