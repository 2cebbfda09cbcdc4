/** Colours of charts: categories, and amounts. All come from the tokens of the page, light or dark. */

/** The eight colours of categories, for lines and points. */
export const CATEGORIES = [1, 2, 3, 4, 5, 8, 7, 6].map((i) => `var(--c${i})`);
/** What belongs to no category. */
export const OTHER = "var(--heat-0)";

/** A colour as the ground of text: light enough, or dark enough, for ink. */
export function ground(colour: string): string {
  return `color-mix(in srgb, ${colour} 42%, var(--surface))`;
}

/** Colours of the names with the largest amounts; others have none. Largest first. */
export function byAmount(amounts: Map<string, number>): Map<string, string> {
  const names = [...amounts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return new Map(names.slice(0, CATEGORIES.length).map(([name], i) => [name, CATEGORIES[i]!]));
}

/** Five steps of an amount, and the colour of text on each. */
export const HEAT = [0, 1, 2, 3, 4].map((i) => `var(--heat-${i})`);
export const ON_HEAT = [
  "var(--ink)",
  "var(--ink)",
  "var(--ink)",
  "light-dark(var(--ink), var(--surface))",
  "var(--surface)",
];

/** The step of a value: how many of four rising limits it reaches. */
export function heatStep(value: number, limits: readonly number[]): number {
  let step = 0;
  while (step < limits.length && value >= limits[step]!) step++;
  return step;
}
