/** Reads the data of the page: JSON, compressed with gzip, as base64 in script elements that are never executed. */

import type { Page, Table } from "./payload";

const decoded = new Map<string, Promise<unknown>>();

/** Puts the characters back that words have in common with the word before them, and indices that are those of rows. */
function complete(table: Table | undefined): void {
  for (const column of table?.columns ?? []) {
    let before = "";
    column.words = column.words?.map((end, at) => (before = before.slice(0, column.shared?.[at] ?? 0) + end));
    column.codes ??= column.words?.map((_, at) => at);
  }
}

/** The tables in some data: it is one itself, or a page. */
function tablesIn(data: Partial<Table & Page>): (Table | undefined)[] {
  const blocks = data.views?.flatMap((view) => view.blocks) ?? [];
  return [data as Table, ...blocks.map((block) => ("table" in block ? (block.table as Table) : undefined))];
}

async function read(id: string): Promise<unknown> {
  const element = document.getElementById(`data-${id}`);
  if (!element?.textContent) throw new Error(`this page has no data for ${id}`);
  const text = element.textContent;
  element.textContent = ""; // the text is not needed again, and may be megabytes
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at); // Uint8Array.from takes ten times as long
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = (await new Response(stream).json()) as object;
  tablesIn(data).forEach(complete);
  return data;
}

let pending = 0;

/** The data with this id, decoded once. Meanwhile, the page has the attribute `data-decoding`. */
export function section<T>(id: string): Promise<T> {
  const busy = (by: number) => document.body.toggleAttribute("data-decoding", (pending += by) > 0);
  if (!decoded.has(id)) {
    busy(1);
    decoded.set(
      id,
      read(id).finally(() => busy(-1)),
    );
  }
  return decoded.get(id) as Promise<T>;
}
