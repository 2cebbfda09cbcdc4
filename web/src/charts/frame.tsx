/** The frame of a chart: its size, its marks' tooltip and keyboard, and the buttons that save it as a picture. */

import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren, RefObject, SVGAttributes } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { downloadPng, downloadSvg } from "../export";
import { Tooltip, type Shown, type Tip } from "./tooltip";
import "./charts.css";

export { tipText, type Tip } from "./tooltip";

/** A place to draw in, as wide as the page lets it be. */
export interface Box {
  ref: RefObject<HTMLElement | null>;
  width: number;
}

interface Props {
  box: Box;
  height: number;
  /** The name of the saved file. */
  name: string;
  /** What the chart shows, for those who do not see it. */
  label: string;
  /** Says what a mark is; marks are elements with `data-i`. */
  tip?: (mark: number) => Tip | null;
  /** A click on a mark, or Enter while it has the focus. */
  pick?: (mark: number, event: MouseEvent | KeyboardEvent) => void;
  /** The mark that an arrow key leads to; the next or previous one if it is absent. */
  move?: (mark: number, key: string) => number | null | undefined;
  /** Other keys; true if the key was used. */
  press?: (event: KeyboardEvent) => boolean;
  /** For charts that are read by position instead of by mark: which mark, and where it is. */
  at?: (x: number, y: number) => number | null;
  /** Draws what marks the position that is read. */
  cursor?: (mark: number) => { x: number; y: number; draw: ComponentChildren };
  /** Number of positions, for the keyboard. */
  count?: number;
  /** Buttons above the chart. */
  controls?: ComponentChildren;
  class?: string;
  /** A tall chart scrolls in its frame; called with how far. */
  scroll?: (top: number) => void;
  /** Handlers for dragging and zooming. */
  svg?: SVGAttributes<SVGSVGElement>;
  children?: ComponentChildren;
}

/** A box whose width follows its container's. */
export function useBox(): Box {
  const ref = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current!;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}

function Cursor({
  shown,
  cursor,
  count,
}: Required<Pick<Props, "cursor" | "count">> & { shown: Signal<Shown | null> }) {
  const mark = shown.value?.mark ?? count;
  return mark < count ? <g data-screen="">{cursor(mark).draw}</g> : null;
}

const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

function markOf(target: EventTarget | null): { element: SVGElement; mark: number } | null {
  const element = target instanceof Element ? target.closest<SVGElement>("[data-i]") : null;
  return element && { element, mark: Number(element.dataset.i) };
}

/** A chart with its tooltip, keyboard and save buttons; its marks are its children. */
export function ChartFrame(props: Props) {
  const { box, height, tip, pick, at, cursor, scroll, count = 0 } = props;
  const shown = useSignal<Shown | null>(null);
  const svg = useRef<SVGSVGElement>(null);

  const place = (event: MouseEvent): [number, number] => {
    const figure = box.ref.current!.getBoundingClientRect();
    return [event.clientX - figure.left, event.clientY - figure.top];
  };
  const top = () => svg.current!.getBoundingClientRect().top - box.ref.current!.getBoundingClientRect().top;
  const show = (mark: number, x: number, y: number) => (shown.value = { mark, tip: tip?.(mark) ?? null, x, y });
  const read = (mark: number) => {
    const where = cursor!(mark);
    show(mark, where.x, where.y + top());
  };
  const hover = (event: PointerEvent) => {
    if (event.type === "pointermove" && event.buttons) return void (shown.value = null); // it drags
    const [x, y] = place(event);
    const mark = at ? at(x, y - top()) : (markOf(event.target)?.mark ?? null);
    if (mark === null) shown.value = null;
    else if (at) read(mark);
    else if (mark !== shown.value?.mark) show(mark, x, y);
    else shown.value = { ...shown.value, x, y };
  };
  const focus = (event: FocusEvent) => {
    const found = markOf(event.target);
    if (!found || !found.element.matches(":focus-visible")) return;
    const figure = box.ref.current!.getBoundingClientRect();
    const mark = found.element.getBoundingClientRect();
    show(found.mark, mark.left - figure.left + Math.min(mark.width / 2, 80), mark.bottom - figure.top - 8);
  };
  const go = (mark: number) => {
    if (cursor) read(mark);
    else svg.current!.querySelector<SVGElement>(`[data-i="${mark}"]`)?.focus();
  };
  const step = (key: string, shift: boolean): number | null | undefined => {
    const by = STEPS[key]! * (shift ? 10 : 1);
    if (cursor) return Math.max(0, Math.min(count - 1, shown.value ? shown.value.mark + by : by > 0 ? 0 : count - 1));
    const current = markOf(document.activeElement);
    if (!current) return null;
    if (props.move) return props.move(current.mark, key);
    const marks = [...svg.current!.querySelectorAll<SVGElement>("[data-i]")];
    const next = marks[Math.max(0, Math.min(marks.length - 1, marks.indexOf(current.element) + by))];
    return next && Number(next.dataset.i);
  };
  const choose = (mark: number, event: MouseEvent | KeyboardEvent) => {
    shown.value = null;
    pick!(mark, event);
  };
  const key = (event: KeyboardEvent) => {
    if (props.press?.(event)) {
      shown.value = null;
      return event.preventDefault();
    }
    if (event.ctrlKey && event.key !== "Enter") return;
    const current = markOf(document.activeElement)?.mark ?? shown.value?.mark;
    if (event.key === "Escape") shown.value = null;
    else if ((event.key === "Enter" || event.key === " ") && pick && current !== undefined) choose(current, event);
    else if (STEPS[event.key]) {
      const next = step(event.key, event.shiftKey);
      if (next !== null && next !== undefined) go(next);
    } else return;
    event.preventDefault();
  };
  const click = (event: MouseEvent) => {
    const [x, y] = place(event);
    const mark = at ? at(x, y - top()) : markOf(event.target)?.mark;
    if (mark !== undefined && mark !== null) choose(mark, event);
  };
  return (
    <figure class={`chart ${props.class ?? ""}`} ref={box.ref} onPointerLeave={() => (shown.value = null)}>
      {props.controls && <div class="chart-controls">{props.controls}</div>}
      <div
        class={scroll ? "chart-scroll" : undefined}
        onScroll={scroll && ((event) => scroll(event.currentTarget.scrollTop))}
      >
        {box.width > 0 && (
          <svg
            {...props.svg}
            ref={svg}
            width={box.width}
            height={height}
            viewBox={`0 0 ${box.width} ${height}`}
            role={tip && !cursor ? "group" : "img"}
            aria-label={props.label}
            tabindex={cursor ? 0 : undefined}
            onPointerMove={tip && hover}
            onPointerDown={tip && hover}
            onFocusIn={tip && focus}
            onFocusOut={() => (shown.value = null)}
            onKeyDown={key}
            onClick={pick && click}
          >
            {props.children}
            {cursor && <Cursor shown={shown} cursor={cursor} count={count} />}
          </svg>
        )}
      </div>
      {tip && <Tooltip shown={shown} live={!!cursor} />}
      <div class="chart-save">
        <button type="button" title="Save this chart as SVG" onClick={() => downloadSvg(svg.current!, props.name)}>
          SVG
        </button>
        <button
          type="button"
          title="Save this chart as PNG"
          onClick={() => void downloadPng(svg.current!, props.name)}
        >
          PNG
        </button>
      </div>
    </figure>
  );
}
