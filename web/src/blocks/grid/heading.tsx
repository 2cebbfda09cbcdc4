/** Headings of columns: a click sorts, hover and focus show where the numbers come from. */

import { useId } from "preact/hooks";
import type { Column } from "../../payload";
import { tips } from "../../tip";
import { parseSort } from "./rows";

/** The sort parameter after a click on a heading: numbers from the largest, text from A; then reversed; then none. */
export function nextSort(of: Column, sort: string): string {
  const order = of.numbers ? [`-${of.key}`, of.key, ""] : [of.key, `-${of.key}`, ""];
  return order[order.indexOf(sort) + 1] ?? order[0]!;
}

/** The class of a column's cells that do not draw its bar. */
export const alignment = (of: Column) => (of.numbers || of.right ? (of.bar ? "number barred" : "number") : undefined);

/** The heading of a column. */
export function Heading({ of, sort, pick }: { of: Column; sort: string; pick: (sort: string) => void }) {
  const id = useId();
  const { key, descending } = parseSort(sort);
  const sorted = key === of.key ? (descending ? "descending" : "ascending") : undefined;
  const about = [of.method, of.how].filter(Boolean).join(": ");
  return (
    <div role="columnheader" aria-sort={sorted ?? "none"} class={alignment(of)}>
      <button
        type="button"
        aria-describedby={about ? id : undefined}
        class={about ? "explained" : undefined}
        onClick={() => pick(nextSort(of, sort))}
        {...(about && tips(about))}
      >
        <span>{of.title}</span>
        <i aria-hidden="true">{sorted && (descending ? "↓" : "↑")}</i>
      </button>
      {of.method && <small>{of.method}</small>}
      {about && (
        <span id={id} hidden>
          {about}
        </span>
      )}
    </div>
  );
}
