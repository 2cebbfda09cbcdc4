/** The page around the views: header, navigation, and the view that is shown. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Blocks } from "./blocks";
import { KeysDialog, useKeys } from "./keys";
import { Nav, NavMenu } from "./nav";
import type { Page, View } from "./payload";
import { Prose } from "./prose";
import { view } from "./state";
import { nextTheme, theme } from "./theme";
import { TipLayer } from "./tip";
import "./app.css";

/** The whole page. */
export function App({ page }: { page: Page }) {
  const shown = page.views.find((one) => one.id === view.value) ?? page.views[0];
  const main = useRef<HTMLElement>(null);
  const help = useRef<HTMLDialogElement>(null);
  useKeys(page.views, help);
  useEffect(() => {
    document.title = [shown?.title, page.title, "Assay"].filter(Boolean).join(" · ");
  }, [shown, page]);
  const first = useRef(true);
  useLayoutEffect(() => {
    // Before the effects of the view, which may scroll to what a link points to.
    if (!first.current) scrollTo(0, 0);
    // The link that led here may have gone with its view: the next Tab then starts in the new one.
    if (!first.current && document.activeElement === document.body) main.current?.focus();
    first.current = false;
  }, [shown]);
  if (!shown) return null;
  return (
    <div class="page">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <header>
        <div>
          <h1>{page.title}</h1>
          <p>{page.subtitle}</p>
        </div>
        <ThemeButton />
        <button type="button" class="quiet keys-button" aria-label="Keys" onClick={() => help.current?.showModal()}>
          <kbd>?</kbd>
        </button>
        <NavMenu page={page} shown={shown} />
      </header>
      <Nav page={page} shown={shown} />
      <main id="main" ref={main} tabIndex={-1}>
        <Partial page={page} />
        <Shown key={shown.id} page={page} shown={shown} />
        <TipLayer />
      </main>
      <footer>Assay {page.assay}</footer>
      <KeysDialog help={help} />
    </div>
  );
}

function Partial({ page }: { page: Page }) {
  return page.partial ? (
    <p class="partial" role="note">
      <span aria-hidden="true">⚠&#xFE0E;</span> <Prose text={page.partial} />
    </p>
  ) : null;
}

function Shown({ page, shown }: { page: Page; shown: View }) {
  const answers = shown.blocks[0]?.kind === "overview";
  return (
    <>
      <h2 class={answers ? "visually-hidden" : "view-title"}>{shown.title}</h2>
      {shown.blocks.length ? (
        <Blocks blocks={shown.blocks} page={page} />
      ) : (
        <div class="empty">
          <svg viewBox="0 0 48 32" aria-hidden="true">
            <path d="M1 31h46M7 31V19h8v12M20 31V9h8v22M33 31V15h8v16" />
          </svg>
          <p>
            <Prose text={shown.empty ?? "There is no data for this view."} />
          </p>
        </div>
      )}
    </>
  );
}

const ICONS = {
  auto: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Zm0 1.4v9.6a4.8 4.8 0 0 0 0-9.6Z",
  light: "M8 4.4a3.6 3.6 0 1 0 0 7.2 3.6 3.6 0 0 0 0-7.2ZM7.3.6h1.4v2.3H7.3zm0 12.5h1.4v2.3H7.3zM.6 7.3h2.3v1.4H.6zm12.5 0h2.3v1.4h-2.3z",
  dark: "M6.2 1.9a6.3 6.3 0 1 0 7.9 7.9A5.6 5.6 0 0 1 6.2 1.9Z",
};

function ThemeButton() {
  const name = theme.value;
  return (
    <button type="button" class="quiet" aria-label={`Theme: ${name}`} title={`Theme: ${name}`} onClick={nextTheme}>
      <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
        <path fill-rule="evenodd" d={ICONS[name]} />
      </svg>
    </button>
  );
}
