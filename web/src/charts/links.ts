/** Where marks lead to: other views, if the page has them. */

import type { Page } from "../payload";
import { goTo } from "../state";

/** Goes to a view with parameters, or is undefined if the page does not have the view. */
export function link(page: Page, view: string): ((values: Record<string, string>) => void) | undefined {
  const there = page.views.some((one) => one.id === view);
  return there ? (values) => goTo(view, values) : undefined;
}
