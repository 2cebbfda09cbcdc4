/** Data that is decoded when a block is first shown. */

import { useEffect, useState } from "preact/hooks";
import { section } from "../decode";
import type { Table, TableRef } from "../payload";

/** The data of a section, null until it is decoded; an empty id has none. */
export function useSection<T>(id: string): T | null {
  const [state, setState] = useState<{ id: string; data?: T; error?: unknown }>({ id: "" });
  useEffect(() => {
    let wanted = true;
    const keep = (result: { data?: T; error?: unknown }) => wanted && setState({ id, ...result });
    if (id)
      section<T>(id).then(
        (data) => keep({ data }),
        (error: unknown) => keep({ error }),
      );
    return () => void (wanted = false);
  }, [id]);
  if (state.error) throw state.error;
  return (state.id === id && state.data) || null;
}

/** The table of a block, null until it is decoded. */
export function useTable(ref: TableRef): Table | null {
  const later = useSection<Table>("section" in ref ? ref.section : "");
  return "section" in ref ? later : ref;
}
