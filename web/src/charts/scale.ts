/** Scales from numbers to pixels, and the round numbers at which axes have ticks. */

import type { Unit } from "../payload";

/** A mapping of numbers to pixels, with its ticks; `invert` maps pixels back. */
export interface Scale {
  (value: number): number;
  invert(pixel: number): number;
  ticks: number[];
}

type Pair = [number, number];

/** Round steps: of the decimal system, or of the binary one for bytes. */
function step(span: number, count: number, base: number): number {
  const power = base ** Math.floor(Math.log(span / count) / Math.log(base));
  const factors = base === 10 ? [1, 2, 5, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
  return power * factors.find((factor) => span / (power * factor) <= count * 1.0001)!;
}

/** About `count` round numbers in a range. */
export function ticksBetween([low, high]: Pair, count: number, unit: Unit = "number"): number[] {
  if (!(high > low)) return [low];
  let by = step(high - low, Math.max(count, 1), unit === "bytes" ? 1024 : 10);
  if (unit === "count" || unit === "exact") by = Math.max(by, 1);
  const first = Math.ceil(low / by - 1e-9);
  const last = Math.floor(high / by + 1e-9);
  // Dividing by the inverse of a small step gives 0.3, where multiplying gives 0.30000000000000004.
  const inverse = by < 1 ? Math.round(1 / by) : 0;
  return Array.from({ length: last - first + 1 }, (_, i) => (inverse ? (first + i) / inverse : (first + i) * by));
}

/** The end of an axis that holds `high`: the next round number. */
export function roundUp(high: number, count: number, unit: Unit = "number"): number {
  if (!(high > 0)) return 1;
  const by = step(high, count, unit === "bytes" ? 1024 : 10);
  return Math.ceil(high / by - 1e-9) * by;
}

/** A linear scale; a domain without extent is widened, so that its value lies in the middle. */
export function linear(domain: Pair, range: Pair, count = 5, unit: Unit = "number"): Scale {
  let [low, high] = domain;
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const by = (range[1] - range[0]) / (high - low);
  return Object.assign((value: number) => range[0] + (value - low) * by, {
    invert: (pixel: number) => low + (pixel - range[0]) / by,
    ticks: ticksBetween([low, high], count, unit),
  });
}

/** A logarithmic scale of positive numbers; its ticks are powers of ten, or in a short range 1, 2 and 5 times these. */
export function logarithmic(domain: Pair, range: Pair, count = 6): Scale {
  const low = Math.log10(domain[0]);
  const high = domain[0] === domain[1] ? low + 1 : Math.log10(domain[1]);
  const by = (range[1] - range[0]) / (high - low);
  const first = Math.ceil(low - 1e-9);
  const decades = Math.floor(high + 1e-9) - first + 1;
  const every = Math.max(1, Math.ceil(decades / count));
  let ticks = Array.from({ length: Math.max(0, Math.ceil(decades / every)) }, (_, i) => 10 ** (first + i * every));
  if (high - low < 2.5) {
    const all = [-1, ...ticks.keys()].flatMap((i) => [1, 2, 5].map((factor) => factor * 10 ** (first + i)));
    ticks = all.filter((tick) => Math.log10(tick) >= low - 1e-9 && Math.log10(tick) <= high + 1e-9);
  }
  return Object.assign((value: number) => range[0] + (Math.log10(value) - low) * by, {
    invert: (pixel: number) => 10 ** (low + (pixel - range[0]) / by),
    ticks,
  });
}

/** The least and the largest of numbers, without unknown ones; null if none is known. */
export function extent(values: Iterable<number | null | undefined>): Pair | null {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** Moves positions apart until neighbours are `gap` from each other, within 0 to `limit`; their order is kept. */
export function spread(positions: number[], gap: number, limit: number): number[] {
  const order = positions.map((_, i) => i).sort((a, b) => positions[a]! - positions[b]!);
  const placed = [...positions];
  let least = 0;
  for (const i of order) least = (placed[i] = Math.max(placed[i]!, least)) + gap;
  let most = limit;
  for (const i of order.reverse()) most = (placed[i] = Math.min(placed[i]!, most)) - gap;
  return placed;
}
