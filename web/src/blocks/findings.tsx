/** What was found: the fact, the advice, its gain, the evidence, where, and what trying it did. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Go } from "../go";
import type { FindingItem, Page } from "../payload";
import { Prose } from "../prose";
import { SEVERITIES, SeveritySymbol, type Severity } from "../severity";
import { param } from "../state";
import { Hint } from "../tip";
import { Confidence, Gain } from "./gain";
import { Trial } from "./trial";
import type { BlockProps } from ".";
import "./findings.css";

const severity = param("severity");
const rule = param("rule");

/** All findings, which can be narrowed to one severity; a link may point to one of them. */
export function FindingsBlock({ block, page }: BlockProps<"findings">) {
  const linked = block.findings.find((one) => one.code === rule.value);
  const chosen = Object.hasOwn(SEVERITIES, severity.value) ? severity.value : "";
  const only = linked && linked.severity !== chosen ? "" : chosen; // a link shows its finding, whatever was chosen
  const shown = block.findings.filter((one) => !only || one.severity === only);
  return (
    <>
      <p class="muted">{block.summary}</p>
      <Chips findings={block.findings} only={only} />
      <div class="findings">
        {shown.map((one, at) => (
          <Card key={`${one.code} ${at}`} finding={one} page={page} heading={block.title ? "h4" : "h3"} />
        ))}
      </div>
    </>
  );
}

function Chips({ findings, only }: { findings: FindingItem[]; only: string }) {
  const kinds = (Object.keys(SEVERITIES) as Severity[])
    .map((kind) => ({ kind, count: findings.filter((one) => one.severity === kind).length }))
    .filter(({ count }) => count);
  if (kinds.length < 2) return null;
  const choose = (kind: string) => {
    rule.value = "";
    severity.value = kind;
  };
  return (
    <div class="chips" role="group" aria-label="Severity">
      <button type="button" aria-pressed={!only} onClick={() => choose("")}>
        All {findings.length}
      </button>
      {kinds.map(({ kind, count }) => (
        <button key={kind} type="button" aria-pressed={only === kind} onClick={() => choose(kind)}>
          <span class={`severity ${kind}`} aria-hidden="true">
            {SEVERITIES[kind].symbol}
          </span>{" "}
          {count} {count === 1 ? SEVERITIES[kind].one : SEVERITIES[kind].many}
        </button>
      ))}
    </div>
  );
}

function Card({ finding, page, heading: Heading }: { finding: FindingItem; page: Page; heading: "h3" | "h4" }) {
  const card = useRef<HTMLElement>(null);
  const linked = rule.value === finding.code;
  useEffect(() => {
    if (!linked) return;
    card.current?.scrollIntoView({ block: "start" });
    card.current?.focus({ preventScroll: true });
  }, [linked]);
  return (
    <article ref={card} class={`finding ${finding.severity}`} data-linked={linked || undefined} tabIndex={-1}>
      <header>
        <Heading>
          <SeveritySymbol severity={finding.severity} /> {finding.title}{" "}
          <Go page={page} to="findings" params={{ rule: finding.code }} class="rule">
            {finding.code}
          </Go>
        </Heading>
        <p class="worth">
          <Gain finding={finding} />
          <Confidence finding={finding} />
        </p>
      </header>
      {finding.advice && (
        <p class="advice">
          <Prose text={finding.advice} />
        </p>
      )}
      {finding.trials.map((trial, at) => (
        <Trial key={at} trial={trial} />
      ))}
      <dl>
        {finding.evidence.length > 0 && (
          <Row name="Evidence">
            {finding.evidence.map((one) => (
              <span key={one.name} class="evidence">
                {one.name} <b>{one.value}</b>{" "}
                <span class="muted small">
                  <Hint text={one.how}>{one.method}</Hint>
                </span>
              </span>
            ))}
          </Row>
        )}
        <Places name="Modules" places={finding.modules} more={finding.more_modules} page={page} view="modules" param="module" />
        <Places name="Tensors" places={finding.tensors} more={finding.more_tensors} page={page} view="weights" param="tensor" />
      </dl>
    </article>
  );
}

function Row({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const FEW = 8;

function Places(props: { name: string; places: string[]; more: number; page: Page; view: string; param: string }) {
  const [all, setAll] = useState(false);
  const { places } = props;
  if (!places.length) return null;
  const shown = all || places.length <= FEW + 1 ? places : places.slice(0, FEW);
  return (
    <Row name={props.name}>
      <ul class="places">
        {shown.map((path) => (
          <li key={path}>
            <Go page={props.page} to={props.view} params={{ [props.param]: path }}>
              {path || "(root)"}
            </Go>
          </li>
        ))}
        {shown.length < places.length && (
          <li>
            <button type="button" onClick={() => setAll(true)}>
              and {places.length - shown.length + props.more} more
            </button>
          </li>
        )}
        {shown.length === places.length && props.more > 0 && <li class="muted">and {props.more} more, not listed here</li>}
      </ul>
    </Row>
  );
}
