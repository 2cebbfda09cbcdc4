/** What following a finding saves, and how that is known. */

import type { FindingItem } from "../payload";
import { Hint } from "../tip";
import "./gain.css";

/** The gain as a bar of the whole and as text. */
export function Gain({ finding }: { finding: FindingItem }) {
  if (!finding.gain) return null;
  return (
    <span class="gain">
      {finding.gain_share !== null && (
        <span class="gain-bar" aria-hidden="true">
          <i style={{ width: `${Math.min(1, Math.max(0.01, finding.gain_share)) * 100}%` }} />
        </span>
      )}
      <span>{finding.gain}</span>
    </span>
  );
}

/** `1.43× measured` in solid, or how the gain was estimated in outline. */
export function Confidence({ finding }: { finding: FindingItem }) {
  if (!finding.confidence) return null;
  return (
    <span class={finding.proven ? "badge solid" : "badge"}>
      <Hint text={finding.verified}>{finding.confidence}</Hint>
    </span>
  );
}
