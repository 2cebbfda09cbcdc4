/** What trying a change did: before and after as two bars. */

import type { TrialItem } from "../payload";
import "./trial.css";

const VERDICTS: Record<string, string> = { faster: "good", slower: "bad", "different outputs": "bad", failed: "bad" };

/** One trial of a change on a copy of the model. */
export function Trial({ trial }: { trial: TrialItem }) {
  return (
    <div class="trial">
      <p>
        Tried <b>{trial.name}</b>: <span class={`verdict ${VERDICTS[trial.verdict] ?? ""}`}>{trial.verdict}</span>
        {trial.speedup && <>, {trial.speedup}</>}
        {trial.outputs && <span class="muted">, outputs: {trial.outputs}</span>}
      </p>
      {trial.detail && <p class="muted">{trial.detail}</p>}
      {trial.rows.length > 0 && (
        <dl>
          {trial.rows.map((row) => (
            <div key={row.what}>
              <dt>{row.what}</dt>
              <dd>
                <Bar name="before" text={row.before} value={row.from} most={most(row)} />
                <Bar name="after" text={row.after} value={row.to} most={most(row)} kind={change(row)} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

type Row = TrialItem["rows"][number];
const most = (row: Row) => Math.max(row.from ?? 0, row.to ?? 0);
const change = ({ from, to }: Row) => (from === null || to === null || from === to ? "" : to < from ? "good" : "bad");

function Bar(props: { name: string; text: string; value: number | null; most: number; kind?: string }) {
  const share = props.value && props.most ? props.value / props.most : 0;
  return (
    <span class="change">
      <span class="muted small">{props.name}</span>
      <span class="change-bar" aria-hidden="true">
        <i class={props.kind} style={{ width: `${100 * share}%` }} />
      </span>
      <span>{props.text}</span>
    </span>
  );
}
