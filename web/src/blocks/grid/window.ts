/** The part of a long list of rows that is in sight, so that only that part is drawn. */

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/** The height of a row in pixels, as in table.css. */
export const ROW = 28;
/** Rows drawn above and below those in sight, so that a quick scroll does not show gaps. */
const SPARE = 8;
/** Rows that are printed. */
const PRINTED = 200;

/** The rows that are drawn, and how to bring one into sight. */
export interface Window {
  from: number;
  to: number;
  /** The number of whole rows in sight. */
  page: number;
  /** Scrolls to the row at this place, if it is not in sight. */
  bring: (at: number) => void;
  /** Whether there is more to the right. */
  more: boolean;
  printing: boolean;
}

/** Whether the page is being printed. */
function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const [start, end] = [() => setPrinting(true), () => setPrinting(false)];
    addEventListener("beforeprint", start);
    addEventListener("afterprint", end);
    return () => {
      removeEventListener("beforeprint", start);
      removeEventListener("afterprint", end);
    };
  }, []);
  return printing;
}

/** The window on `count` rows in an element that scrolls and whose first child is the heading of these columns. */
export function useWindow(scroller: RefObject<HTMLElement | null>, count: number, columns: string): Window {
  const [first, setFirst] = useState(0);
  const [page, setPage] = useState(30);
  const [more, setMore] = useState(false);
  const printing = usePrinting();
  const heading = () => (scroller.current?.firstElementChild as HTMLElement | null)?.offsetHeight ?? 0;
  const look = () => {
    const element = scroller.current;
    if (!element) return;
    setFirst(Math.floor(element.scrollTop / ROW));
    setPage(Math.max(1, Math.floor((element.clientHeight - heading()) / ROW)));
    setMore(element.scrollLeft + element.clientWidth < element.scrollWidth - 1);
  };
  useLayoutEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  useLayoutEffect(look, [count, columns]); // fewer rows than before may have scrolled it
  const bring = (at: number) => {
    const element = scroller.current;
    if (!element) return;
    const room = element.clientHeight - heading();
    const [top, low] = [at * ROW, (at + 1) * ROW - room];
    const from = element.scrollTop;
    if (from >= low && from <= top) return;
    const near = from > top - room && from < low + room;
    element.scrollTop = near ? (from > top ? top : low) : top - room / 2;
    look();
  };
  if (printing) return { from: 0, to: Math.min(count, PRINTED), page, bring, more, printing };
  return { from: Math.max(0, first - SPARE), to: Math.min(count, first + page + SPARE), page, bring, more, printing };
}
