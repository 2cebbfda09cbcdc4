/** Light, dark, or as the system says. The head of the page sets the stored choice before the first paint. */

import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const THEMES: Theme[] = ["auto", "light", "dark"];
const root = document.documentElement;

/** The chosen theme. */
export const theme = signal<Theme>(THEMES.find((one) => one === root.dataset.theme) ?? "auto");

/** Chooses the next theme, and stores it where the browser allows that. */
export function nextTheme(): void {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  theme.value = next;
  root.dataset.theme = next;
  try {
    localStorage.setItem("assay-theme", next);
  } catch {
    // A sandboxed frame has no storage: the choice lasts until the page is closed.
  }
}
