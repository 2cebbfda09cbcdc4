/** Shortening of sentences that Assay wrote. */

/** The first clause of a recommendation: `Use torch.compile`; ends where `assay.views.text.brief` ends it. */
export function firstClause(advice: string): string {
  return advice.split(/[.:;,] | \(|\.$/, 1)[0]!;
}

/** The fact that a title states, without the list of places after it. */
export function fact(title: string): string {
  return title.split(/[:;] /, 1)[0]!;
}

/** `1 module`, `2 modules`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
