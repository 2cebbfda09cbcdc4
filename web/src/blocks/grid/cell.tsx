/** Cells: text that is cut in the middle, numbers with bars, states with symbols, links to other views. */

import { largest, textAt, valueAt } from "../../columns";
import type { Column } from "../../payload";
import { SEVERITIES, type Severity } from "../../severity";
import { goTo } from "../../state";

/** As many characters at the end of a text stay when it is cut. */
const TAIL = 10;

/** Text that is cut in the middle if it does not fit, because names differ at their ends. */
export function Cut({ text }: { text: string }) {
  if (text.length < 2 * TAIL) return <span title={text.length > TAIL ? text : undefined}>{text}</span>;
  const lone = /[\udc00-\udfff]/.test(text.at(-TAIL)!); // the second half of a character
  const at = text.length - TAIL - Number(lone);
  return (
    <span class="cut" title={text}>
      <span>{text.slice(0, at)}</span>
      <span>{text.slice(at)}</span>
    </span>
  );
}

type Tone = "good" | "warn" | "bad" | "accent" | "muted" | "c1" | "c2";

const severities = Object.entries(SEVERITIES) as [Severity, { symbol: string; one: string }][];
const SEVERITY_TONES: Record<Severity, Tone> = { error: "bad", warning: "warn", advice: "accent", note: "muted" };

/** The symbol and colour of each state; words that are not here are plain text. */
const STATES: Record<NonNullable<Column["state"]>, Record<string, [symbol: string, tone: Tone]>> = {
  severity: Object.fromEntries(
    severities.flatMap(([name, { symbol, one }]) => [name, one].map((word) => [word, [symbol, SEVERITY_TONES[name]]])),
  ),
  change: {
    added: ["+", "good"],
    removed: ["−", "bad"],
    changed: ["~", "warn"],
    moved: ["→", "accent"],
    same: ["=", "muted"],
    new: ["+", "warn"],
    gone: ["−", "good"],
    "still there": ["=", "muted"],
  },
  bound: {
    compute: ["■", "c1"],
    memory: ["◆", "c2"],
    overhead: ["▲", "warn"],
    inefficient: ["○", "bad"],
    unknown: ["·", "muted"],
  },
  verdict: {
    faster: ["▲", "good"],
    slower: ["▼", "bad"],
    "no difference": ["=", "muted"],
    same: ["=", "muted"],
    inconclusive: ["?", "muted"],
    "different outputs": ["✗", "bad"],
    failed: ["✗", "bad"],
    "not applicable": ["·", "muted"],
    "not tried": ["·", "muted"],
  },
};

/** The view and its parameter that each kind of link leads to. */
export const TARGETS: Record<NonNullable<Column["link"]>, [view: string, param: string]> = {
  module: ["modules", "module"],
  op: ["ops", "op"],
  tensor: ["weights", "tensor"],
  rule: ["findings", "rule"],
};

/** The address of a cell's link; undefined if it has none. */
export function addressOf(of: Column, row: number): string | undefined {
  const value = of.link ? valueAt(of, row) : null;
  if (!of.link || value === null) return undefined;
  const [view, param] = TARGETS[of.link];
  return `#${new URLSearchParams({ view, [param]: String(value) })}`;
}

/** Follows the address of a cell's link, keeping the rest of what the reader has chosen. */
export function follow(address: string): void {
  const { view = "", ...values } = Object.fromEntries(new URLSearchParams(address.slice(1)));
  goTo(view, values);
}

function Bar({ of, value }: { of: Column; value: number }) {
  const part = Math.abs(value) / (largest(of) || 1);
  const heat = part > 0.75 ? 4 : part > 0.4 ? 3 : 2;
  return (
    <span class="bar" aria-hidden="true">
      {part > 0 && <span class={`heat${heat}`} style={{ width: `${(100 * part).toFixed(1)}%` }} />}
    </span>
  );
}

/** Counts of values that should not be there. */
const BAD = new Set(["nan", "inf"]);

const unknown = (of: Column) => ({
  class: "unknown",
  title: of.method && of.method !== "unknown" ? `${of.title}: not ${of.method} here` : of.how || "unknown",
});

/** What a cell contains. `reachable` is whether its link is among the stops of the Tab key. */
export function Content({ of, row, reachable }: { of: Column; row: number; reachable: boolean }) {
  const text = textAt(of, row);
  const value = valueAt(of, row);
  if (of.numbers) {
    return (
      <>
        <span class={BAD.has(of.key) && value ? "bad" : undefined} {...(value === null && unknown(of))}>
          {text}
        </span>
        {of.bar && <Bar of={of} value={Number(value)} />}
      </>
    );
  }
  if (value === null) return <span {...unknown(of)}>{text}</span>;
  const [symbol, tone] = (of.state && STATES[of.state][text]) || [];
  const address = addressOf(of, row);
  return (
    <>
      {symbol && (
        <span class={`state ${tone}`} aria-hidden="true">
          {symbol}
        </span>
      )}
      {address ? (
        <a href={address} tabIndex={reachable ? 0 : -1}>
          <Cut text={text} />
        </a>
      ) : (
        <Cut text={text} />
      )}
    </>
  );
}
