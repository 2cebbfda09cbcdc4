/** How severe a finding is: a symbol, a colour and a word. */

import type { FindingItem } from "./payload";
import "./severity.css";

export type Severity = FindingItem["severity"];

/** The severities from the worst on. `one` and `many` are the words of the terminal. */
export const SEVERITIES: Record<Severity, { symbol: string; one: string; many: string }> = {
  error: { symbol: "✗", one: "error", many: "errors" },
  warning: { symbol: "⚠\uFE0E", one: "warning", many: "warnings" },
  advice: { symbol: "→", one: "suggestion", many: "suggestions" },
  note: { symbol: "•", one: "note", many: "notes" },
};

/** The symbol of a severity, with its word for those who hear the page. */
export function SeveritySymbol({ severity }: { severity: Severity }) {
  return (
    <span class={`severity ${severity}`}>
      <span aria-hidden="true">{SEVERITIES[severity].symbol}</span>
      <span class="visually-hidden">{SEVERITIES[severity].one}: </span>
    </span>
  );
}
