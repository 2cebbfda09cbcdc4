/** Names and values, with how each was obtained. */

import { Hint } from "../tip";
import type { BlockProps } from ".";
import "./facts.css";

/** A list of facts. */
export function FactsBlock({ block }: BlockProps<"facts">) {
  return (
    <dl class="facts">
      {block.rows.map((row, at) => (
        <div key={at}>
          <dt>{row.name}</dt>
          <dd>
            {row.value}
            {(row.method || row.how) && (
              <span class="method">
                <Hint text={row.how}>{row.method || "how"}</Hint>
              </span>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
