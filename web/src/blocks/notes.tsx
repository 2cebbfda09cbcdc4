/** Remarks, one per line. */

import { Prose } from "../prose";
import { SeveritySymbol } from "../severity";
import type { BlockProps } from ".";
import "./notes.css";

/** A list of remarks. */
export function NotesBlock({ block }: BlockProps<"notes">) {
  return (
    <ul class="notes">
      {block.lines.map((line, at) => (
        <li key={at}>
          {block.severity && (
            <>
              <SeveritySymbol severity={block.severity} />{" "}
            </>
          )}
          <Prose text={line} />
        </li>
      ))}
    </ul>
  );
}
