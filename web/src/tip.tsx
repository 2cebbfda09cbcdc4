/** Tooltips: one layer above the page, shown on hover and on focus, that stays while the pointer is on it. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Prose } from "./prose";
import "./tip.css";

const GAP = 6;
const LINGER_MS = 120; // long enough for the pointer to reach the tooltip

const shown = signal<{ anchor: Element; content: ComponentChildren } | null>(null);
let leaving: ReturnType<typeof setTimeout> | undefined;

/** Shows a tooltip at an element. */
export function showTip(anchor: Element, content: ComponentChildren): void {
  clearTimeout(leaving);
  shown.value = { anchor, content };
}

/** Hides the tooltip, at once or after the time that the pointer needs to reach it. */
export function hideTip(now = false): void {
  clearTimeout(leaving);
  if (now) shown.value = null;
  else leaving = setTimeout(() => (shown.value = null), LINGER_MS);
}

/** The event handlers of an element with a tooltip. */
export function tips(content: ComponentChildren) {
  const show = (event: { currentTarget: EventTarget }) => showTip(event.currentTarget as Element, content);
  return { onMouseEnter: show, onFocus: show, onMouseLeave: () => hideTip(), onBlur: () => hideTip(true) };
}

/** The layer in which tooltips are drawn; the page has one. */
export function TipLayer() {
  const layer = useRef<HTMLDivElement>(null);
  const tip = shown.value;
  useLayoutEffect(() => {
    if (!tip || !layer.current) return;
    const at = tip.anchor.getBoundingClientRect();
    const own = layer.current.getBoundingClientRect();
    const left = Math.max(GAP, Math.min(at.left, document.documentElement.clientWidth - own.width - GAP));
    const below = at.bottom + GAP + own.height <= innerHeight;
    layer.current.style.left = `${left}px`;
    layer.current.style.top = `${below ? at.bottom + GAP : Math.max(GAP, at.top - GAP - own.height)}px`;
  }, [tip]);
  return (
    <div
      ref={layer}
      class="tip"
      role="tooltip"
      hidden={!tip}
      onMouseEnter={() => clearTimeout(leaving)}
      onMouseLeave={() => hideTip()}
    >
      {tip?.content}
    </div>
  );
}

/** Text with an explanation on hover and focus; plain text if there is none. */
export function Hint({ text, children }: { text?: string | undefined; children: ComponentChildren }) {
  const id = useId();
  if (!text) return <span>{children}</span>;
  return (
    <span>
      <button type="button" class="hint" aria-describedby={id} {...tips(<Prose text={text} still />)}>
        {children}
      </button>
      <span id={id} hidden>
        {text}
      </span>
    </span>
  );
}
