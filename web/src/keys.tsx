/** Keys that work anywhere on the page, and the dialog that lists them. */

import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import { ordered } from "./nav";
import type { View } from "./payload";
import { goTo } from "./state";
import { hideTip } from "./tip";
import "./keys.css";

const KEYS: [key: string, effect: string][] = [
  ["/", "Filter the table"],
  ["1 – 9", "Show one of the first nine views"],
  ["↑ ↓", "Move in a list, table or tree"],
  ["← →", "Close and open a branch of a tree"],
  ["Tab", "Go to the next control or figure"],
  ["Esc", "Close, or leave the filter"],
  ["?", "Show these keys"],
];

/** Follows keys until the page is closed. */
export function useKeys(views: View[], help: RefObject<HTMLDialogElement | null>): void {
  useEffect(() => {
    const { filled, empty } = ordered(views);
    const press = (event: KeyboardEvent) => {
      if (event.key === "Escape") return hideTip(true);
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const numbered = [...filled, ...empty][Number(event.key) - 1];
      if (event.key === "/") {
        const filter = document.querySelector<HTMLElement>("main [data-filter]");
        if (!filter) return;
        event.preventDefault(); // the slash is not part of the filter
        filter.focus();
      } else if (event.key === "?") help.current?.showModal();
      else if (numbered && !help.current?.open) goTo(numbered.id);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [views]);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

/** The dialog that lists the keys. */
export function KeysDialog({ help }: { help: RefObject<HTMLDialogElement | null> }) {
  const close = (event: MouseEvent & { currentTarget: HTMLDialogElement }) => {
    if (event.target === event.currentTarget) event.currentTarget.close(); // a click beside the dialog
  };
  return (
    <dialog ref={help} class="keys" aria-labelledby="keys-title" onClick={close}>
      <form method="dialog">
        <h2 id="keys-title">Keys</h2>
        <dl>
          {KEYS.map(([key, effect]) => (
            <div key={key}>
              <dt>
                {key.split(" ").map((one) => (one === "–" ? " – " : <kbd>{one}</kbd>))}
              </dt>
              <dd>{effect}</dd>
            </div>
          ))}
        </dl>
        <button>Close</button>
      </form>
    </dialog>
  );
}
