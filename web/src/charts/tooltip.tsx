/** The tooltip of a chart: what a mark is, beside the pointer or the focus. It lets the pointer through to the marks. */

import type { Signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

/** What a tooltip says about a mark. */
export interface Tip {
  title: string;
  /** The line below the title: a class, shapes. */
  text?: string;
  rows?: [string, string][];
  /** What a click does. */
  hint?: string;
}

/** The mark that a tooltip is about, and where it is in its figure. */
export interface Shown {
  mark: number;
  /** Kept, because the mark may be gone when it is drawn again. */
  tip: Tip | null;
  x: number;
  y: number;
}

/** A tooltip as one line, for the label of a mark. */
export function tipText({ title, text, rows = [] }: Tip): string {
  return [title, text, ...rows.map((row) => row.join(" "))].filter(Boolean).join(", ");
}

/** The tooltip of the mark in `shown`; `live` if marks have no label of their own that is read out. */
export function Tooltip({ shown, live }: { shown: Signal<Shown | null>; live: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  const now = shown.value;
  const says = now?.tip;
  useLayoutEffect(() => {
    const element = ref.current;
    const figure = element?.parentElement;
    if (!element || !figure || !now || !says) return;
    const { offsetWidth: width, offsetHeight: height } = element;
    const right = now.x + 14 + width <= figure.clientWidth;
    const left = right ? now.x + 14 : Math.max(0, Math.min(now.x - 14 - width, figure.clientWidth - width));
    const below = figure.getBoundingClientRect().top + now.y + 14 + height <= innerHeight;
    element.style.transform = `translate(${left}px, ${below ? now.y + 14 : now.y - 10 - height}px)`;
  });
  return (
    <div
      class="chart-tip"
      ref={ref}
      hidden={!says}
      aria-live={live ? "polite" : undefined}
      role={live ? "status" : undefined}
    >
      {says && (
        <>
          <b>{says.title}</b>
          {says.text && <div class="chart-tip-text">{says.text}</div>}
          {says.rows && (
            <dl>
              {says.rows.map(([name, value]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
          )}
          {says.hint && <div class="chart-tip-text">{says.hint}</div>}
        </>
      )}
    </div>
  );
}
