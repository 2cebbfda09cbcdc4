/** The list of views: at the side of a wide page, a menu on a narrow one. */

import type { Page, View } from "./payload";
import { goTo } from "./state";
import { Go } from "./go";
import "./nav.css";

/** The views in the order of the navigation: those with something to show, then the others. */
export function ordered(views: View[]): { filled: View[]; empty: View[] } {
  return { filled: views.filter((one) => one.blocks.length), empty: views.filter((one) => !one.blocks.length) };
}

/** Links to all views; arrow keys move between them. */
export function Nav({ page, shown }: { page: Page; shown: View }) {
  const { filled, empty } = ordered(page.views);
  const link = (one: View) => (
    <li key={one.id}>
      <Go page={page} to={one.id} current={one === shown}>
        <span>{one.title}</span>
        {one.badge && <span class="count">{one.badge}</span>}
      </Go>
    </li>
  );
  return (
    <nav class="nav" aria-label="Views" onKeyDown={move}>
      <ul>{filled.map(link)}</ul>
      {empty.length > 0 && (
        <>
          <h2 id="nav-empty">Not recorded</h2>
          <ul class="unfilled" aria-labelledby="nav-empty">
            {empty.map(link)}
          </ul>
        </>
      )}
    </nav>
  );
}

/** The same as a menu. */
export function NavMenu({ page, shown }: { page: Page; shown: View }) {
  const { filled, empty } = ordered(page.views);
  const option = (one: View) => (
    <option key={one.id} value={one.id}>
      {one.badge ? `${one.title} (${one.badge})` : one.title}
    </option>
  );
  return (
    <label class="nav-menu">
      <span class="visually-hidden">View</span>
      <select value={shown.id} onChange={(event) => goTo(event.currentTarget.value)}>
        {filled.map(option)}
        {empty.length > 0 && <optgroup label="Not recorded">{empty.map(option)}</optgroup>}
      </select>
    </label>
  );
}

const STEPS: Record<string, (at: number, last: number) => number> = {
  ArrowDown: (at, last) => (at < last ? at + 1 : 0),
  ArrowUp: (at, last) => (at > 0 ? at - 1 : last),
  Home: () => 0,
  End: (_, last) => last,
};

function move(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const links = Array.from(event.currentTarget.querySelectorAll("a"));
  const step = STEPS[event.key];
  if (!step) return;
  event.preventDefault();
  links[step(links.indexOf(event.target as HTMLAnchorElement), links.length - 1)]?.focus();
}
