/** Follows the document while `assay serve` shows it. A page in a file names no address, and makes no request. */

const EVERY_MS = 1000;

/** Reloads the page, with its hash, when what the server states about the document changes. */
export function followDocument(): void {
  const address = document.querySelector<HTMLMetaElement>('meta[name="assay-live"]')?.content;
  if (!address) return;
  const shown = address.split("?")[1]; // the state of what the page shows
  const look = async () => {
    const now = await state(address);
    if (now !== undefined && now !== shown) location.reload();
    else setTimeout(look, EVERY_MS);
  };
  void look();
}

async function state(address: string): Promise<string | undefined> {
  try {
    const answer = await fetch(address, { cache: "no-store" });
    return answer.ok ? await answer.text() : undefined;
  } catch {
    return undefined; // the server stopped, or is busy: it may return
  }
}
