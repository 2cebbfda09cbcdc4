/** The points of a roofline and where they lie. */

import { column, valueAt } from "../columns";
import type { Table } from "../payload";
import { extent, type Scale } from "./scale";

/** The limits of a machine: FLOPs per second by name, and bytes per second. */
export interface Limits {
  peaks: { name: string; value: number }[];
  bandwidth: number;
}

/** An op with a known position. */
export interface Point {
  row: number;
  intensity: number;
  rate: number;
  share: number;
  bound: string;
}

/** The rows with a known position, the largest first, so that small points are drawn above large ones. */
export function pointsOf(table: Table): Point[] {
  const numbers = (key: string) => column(table, key)?.numbers ?? [];
  const [intensity, rate, share] = [numbers("intensity"), numbers("flops_per_s"), numbers("share")];
  const bound = column(table, "bound");
  const points: Point[] = [];
  for (let row = 0; row < table.rows; row++) {
    const [x, y] = [intensity[row], rate[row]];
    if (!x || !y) continue;
    points.push({
      row,
      intensity: x,
      rate: y,
      share: share[row] ?? 0,
      bound: (bound && valueAt(bound, row)?.toString()) || "unknown",
    });
  }
  return points.sort((a, b) => b.share - a.share);
}

/** The ranges of both axes: all points and the ridges of the roofs. */
export function ranges(points: Point[], { peaks, bandwidth }: Limits): { x: [number, number]; y: [number, number] } {
  const ridges = peaks.map((peak) => peak.value / bandwidth);
  const [left, right] = extent([...points.map((point) => point.intensity), ...ridges])!;
  const [low] = extent([...points.map((point) => point.rate), ...peaks.map((peak) => peak.value)])!;
  return { x: [left / 2, right * 4], y: [low / 2, Math.max(...peaks.map((peak) => peak.value)) * 1.6] };
}

/** The place on the slope that is farthest from all points: its label hides none of them there. */
export function clearest(points: Point[], from: number, to: number, bandwidth: number, x: Scale, y: Scale): number {
  const places = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8].map((share) => from * (to / from) ** share);
  const room = (place: number) =>
    Math.min(
      Infinity,
      ...points.map((point) => Math.hypot(x(point.intensity) - x(place), y(point.rate) - y(place * bandwidth) + 10)),
    );
  return places.reduce((best, place) => (room(place) > room(best) ? place : best));
}
