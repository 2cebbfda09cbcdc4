/** Links from one view to another. */

import type { ComponentChildren } from "preact";
import type { Page } from "./payload";
import { goTo } from "./state";

/** A link to a view of the page, with what is selected there; plain text if the page does not have the view. */
export function Go(props: {
  page: Page;
  to: string;
  params?: Record<string, string>;
  class?: string;
  /** Whether the reader is there. */
  current?: boolean;
  children: ComponentChildren;
}) {
  const { page, to, params = {}, children } = props;
  if (!page.views.some((one) => one.id === to)) return <span class={props.class}>{children}</span>;
  const follow = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    goTo(to, params);
  };
  const address = `#${new URLSearchParams({ view: to, ...params })}`;
  return (
    <a class={props.class} href={address} aria-current={props.current ? "page" : undefined} onClick={follow}>
      {children}
    </a>
  );
}
