/** What the reader has chosen: the view, selection, sorting and filters live in the URL hash, so that a link shows them again. */

import { batch, effect, signal, type Signal } from "@preact/signals";

const params = new Map<string, Signal<string>>();
const fallbacks = new Map<string, string>();
const known = signal(0); // how many parameters there are

function fromHash(): Map<string, string> {
  return new Map(new URLSearchParams(location.hash.slice(1)));
}

function toHash(): string {
  const chosen = new URLSearchParams(location.hash.slice(1)); // parts that are not shown yet have parameters there too
  void known.value; // parameters that come later are followed too
  for (const [name, value] of params) chosen.set(name, value.value);
  for (const [name, fallback] of fallbacks) if (chosen.get(name) === fallback) chosen.delete(name);
  return chosen.toString();
}

/** A value that is kept in the URL hash under `name`; `fallback` is not written there. */
export function param(name: string, fallback = ""): Signal<string> {
  let value = params.get(name);
  if (!value) {
    value = signal(fromHash().get(name) ?? fallback);
    params.set(name, value);
    fallbacks.set(name, fallback);
    known.value = params.size;
  }
  return value;
}

/** Writes changes of parameters to the hash, and those of the hash (back, forward, a pasted link) to parameters. */
export function followHash(): void {
  let followed = location.hash; // what the parameters are as new as
  effect(() => {
    const hash = toHash();
    if (location.hash !== followed) return; // the reader changed it, and the event below comes next
    // Inside a frame of a notebook, an address of only a hash would be one of the page around it.
    const address = location.href.split("#")[0] + (hash ? `#${hash}` : "");
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", address);
    followed = location.hash;
  });
  addEventListener("hashchange", () => {
    followed = location.hash;
    const chosen = fromHash();
    batch(() => {
      for (const [name, value] of params) value.value = chosen.get(name) ?? fallbacks.get(name) ?? "";
    });
  });
}

/** Shows a view, with other parameters set: `goTo("modules", { module: "layer1.0" })`. */
export function goTo(id: string, values: Record<string, string> = {}): void {
  if (id !== view.value) history.pushState(null, "", location.href); // so that "back" returns to this view
  for (const [name, value] of Object.entries(values)) param(name).value = value;
  view.value = id;
}

const opened = document.querySelector<HTMLMetaElement>("meta[name=assay-view]");
/** The id of the view that is shown; empty for the first. The page may name the one that it opens with. */
export const view = param("view", opened?.content ?? "");
/** The path of the selected module, which all views show. */
export const module = param("module");
