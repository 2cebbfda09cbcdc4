/** Widths of columns, from their longest texts, so that they stay the same while rows come and go. */

import { SIZE, textWidth } from "../../charts/text";
import { column, longest, valueAt } from "../../columns";
import type { Column, Table } from "../../payload";

const PADDING = 16;
/** The width of a printed page in pixels: A4 or Letter, upright, without margins. */
const PAPER = 700;
/** The space of an in-cell bar and the gap before it. */
const BAR = 56;
/** The distance by which each level of a tree is indented. */
export const INDENT = 16;

const clamp = (value: number, low: number, high: number) => Math.round(Math.max(low, Math.min(high, value)));
/** The width of a text in the table, where its figures may be wider than in a chart. */
const measured = (text: string) => 1.1 * (13.5 / SIZE) * textWidth(text.slice(0, 80));
const headingWidth = (of: Column) => measured(of.title) + PADDING + 16; // bold, and with an arrow if it is sorted

/** The width that the names of a tree need, with what stands before and after them. */
function treeWidth(table: Table, of: Column): number {
  const letter = measured("layers_0123.weight") / 18;
  const differs = column(table, "differs");
  let most = 0;
  for (let row = 0; row < table.rows; row++) {
    const letters = of.words?.[of.codes?.[row] ?? -1]?.length ?? 0;
    const remark = differs && valueAt(differs, row) ? 240 : (table.run?.[row] ?? 1) > 1 ? 140 : 0; // or repeats and matches
    most = Math.max(most, table.depth![row]! * INDENT + letters * letter + remark);
  }
  return most + PADDING + 24; // the triangle
}

/** The width that the texts or numbers of a column need. */
const textsWidth = (of: Column) => measured(longest(of)) + PADDING + (of.state ? 24 : 0);

function width(of: Column, bars: boolean): [least: number, most: number] {
  const heading = headingWidth(of);
  if (of.numbers) {
    const whole = Math.round(Math.max(heading, textsWidth(of), 80) + (of.bar && bars ? BAR : 0));
    return [whole, whole];
  }
  return [clamp(textsWidth(of), heading, of.link ? 280 : 160), clamp(textsWidth(of), heading, 720)];
}

/** How wide columns are. */
interface Tracks {
  template: string;
  /** The least width of all. */
  least: string;
  /** By what it is made smaller to fit a printed page. */
  zoom: string;
}

/** The tracks of the columns that are shown, the first being the name; bars are not printed. */
export function tracks(table: Table, shown: Column[], printing: boolean): Tracks {
  const [name, ...others] = shown;
  if (!name) return { template: "", least: "0", zoom: "1" };
  const totals = Math.max(0, ...(table.footer ?? []).map((texts) => measured(texts[0] ?? "") + PADDING));
  const names = Math.max(totals, table.depth ? treeWidth(table, name) : textsWidth(name) + 12);
  const most = clamp(names, headingWidth(name), 420);
  // The name stays in sight while the rest scrolls: on a narrow page it leaves room for that.
  const least = printing ? `${Math.min(most, 240)}px` : `min(${most}px, max(168px, ${table.depth ? 20 : 36}cqi))`;
  const widths = others.map((of) => width(of, !printing));
  const rest = widths.reduce((sum, [low]) => sum + low, 0);
  const after = widths.map(([low, high]) => `minmax(${low}px, ${high}px)`);
  return {
    template: [`minmax(${least}, ${most}px)`, ...after, "minmax(0, 1fr)"].join(" "),
    least: `calc(${least} + ${rest}px)`,
    zoom: printing ? Math.min(1, PAPER / (Math.min(most, 240) + rest)).toFixed(3) : "1",
  };
}
