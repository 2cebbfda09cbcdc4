/** Remarks, one per line. */

import { Prose } from "../prose";
import type { BlockProps } from ".";
import "./notes.css";

/** A list of remarks. */
export function NotesBlock({ block }: BlockProps<"notes">) {
  return (
    <ul class="notes">
      {block.lines.map((line, at) => (
        <li key={at}>
          <Prose text={line} />
        </li>
      ))}
    </ul>
  );
}
