/** The answer: what it is, its figures, what to do next, what is wrong, and what is not known. */

import type { ComponentChildren } from "preact";
import { format } from "../format";
import { Go } from "../go";
import type { Brief, Figure, FindingItem, Page } from "../payload";
import { Command, Prose } from "../prose";
import { SeveritySymbol } from "../severity";
import { fact, firstClause, plural } from "../text";
import { Hint, tips } from "../tip";
import { Confidence, Gain } from "./gain";
import type { BlockProps } from ".";
import "./overview.css";

/** The block that opens a report. */
export function OverviewBlock({ page }: BlockProps<"overview">) {
  const brief = page.brief;
  if (!brief) return null;
  const broken = brief.problems.some((one) => one.severity === "error"); // mended before it is made faster
  return (
    <div class="overview">
      <p class="identity">
        {brief.identity.filter((one) => one !== page.title).map((one) => (
          <span key={one}>{one}</span>
        ))}
      </p>
      {brief.figures.length > 0 && (
        <ul class="cards">
          {brief.figures.map((figure) => (
            <Card key={figure.label} figure={figure} />
          ))}
        </ul>
      )}
      <div class="answers">
        {broken && <Problems brief={brief} page={page} />}
        {(brief.actions.length > 0 || brief.next_step) && <Actions brief={brief} page={page} />}
        <div class="aside">
          {!broken && <Problems brief={brief} page={page} />}
          {brief.unknown.length > 0 && <Unknown brief={brief} />}
        </div>
      </div>
    </div>
  );
}

function Card({ figure }: { figure: Figure }) {
  return (
    <li class="card">
      <h3>{figure.label}</h3>
      <p class="method">
        <Hint text={figure.how}>{figure.method}</Hint>
      </p>
      <p class="value" {...(figure.method === "unknown" ? tips(<Prose text={figure.how} still />) : {})}>
        {figure.value}
      </p>
      <p class="about">
        {figure.text}
        {figure.text && figure.range && "\u00a0· "}
        <span>{figure.range}</span>
      </p>
      <div class="share">
        {figure.split.length > 0 && <Split figure={figure} />}
        {figure.detail && <p>{figure.detail}</p>}
      </div>
    </li>
  );
}

const percent = (share: number) => format(share, "share");
const shade = (at: number, name: string) => `part-${name === "other" ? name : Math.min(at, 3)}`;

function Split({ figure }: { figure: Figure }) {
  const names = figure.split.map((part) => `${part.name} ${percent(part.share)}`);
  const list = (
    <ul class="split-names">
      {figure.split.map((part, at) => (
        <li key={at}>
          <i class={shade(at, part.name)} />
          <span>{part.name}</span>
          <span>{percent(part.share)}</span>
        </li>
      ))}
    </ul>
  );
  return (
    <div class="split" role="img" tabIndex={0} aria-label={`${figure.label}: ${names.join(", ")}`} {...tips(list)}>
      {figure.split.map((part, at) => (
        <i key={at} class={shade(at, part.name)} style={{ flexGrow: part.share }} />
      ))}
    </div>
  );
}

function Panel({ title, name, children }: { title: ComponentChildren; name: string; children: ComponentChildren }) {
  return (
    <section class={`panel ${name}`}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Rule({ finding, page }: { finding: FindingItem; page: Page }) {
  return (
    <Go page={page} to="findings" params={{ rule: finding.code }} class="rule">
      {finding.code}
    </Go>
  );
}

function Actions({ brief, page }: { brief: Brief; page: Page }) {
  return (
    <Panel title="Do next" name="next">
      {brief.actions.length > 0 && (
        <p class="heads" aria-hidden="true">
          <span>gain, up to</span>
          <span>confidence</span>
        </p>
      )}
      <ol>
        {brief.actions.map((one) => (
          <li key={one.code}>
            <div class="what">
              <p>
                {firstClause(one.advice)} <Rule finding={one} page={page} />
              </p>
              <p class="why">{fact(one.title)}</p>
            </div>
            <Gain finding={one} />
            <p class="sure">
              <Confidence finding={one} />
            </p>
          </li>
        ))}
      </ol>
      <div class="step">
        {brief.next_step && <p class="muted small">{brief.tries ? "Try them" : "Details"}</p>}
        <More count={brief.more_actions} noun="more suggestion" page={page} />
        {brief.next_step && <Command text={brief.next_step} />}
      </div>
    </Panel>
  );
}

function Problems({ brief, page }: { brief: Brief; page: Page }) {
  if (!brief.problems.length && !brief.clean && !brief.remarks.length) return null;
  return (
    <Panel title="Problems" name="problems">
      <ul>
        {brief.problems.map((one) => (
          <li key={one.code}>
            <SeveritySymbol severity={one.severity} />
            <p>
              {one.title} <Rule finding={one} page={page} />
            </p>
          </li>
        ))}
        {!brief.problems.length && brief.clean && (
          <li>
            <span class="fine" aria-hidden="true">
              ✓
            </span>
            <p>none in {brief.clean}</p>
          </li>
        )}
        {brief.remarks.map((remark) => (
          <li key={remark} class="muted">
            <SeveritySymbol severity="note" />
            <p>{remark}</p>
          </li>
        ))}
      </ul>
      <More count={brief.more_problems} noun="more problem" page={page} />
    </Panel>
  );
}

function Unknown({ brief }: { brief: Brief }) {
  return (
    <Panel title="Not known" name="unknown">
      <ul>
        {brief.unknown.map((one) => (
          <li key={one.what}>
            <span class="muted" aria-hidden="true">
              –
            </span>
            <div>
              <p>{one.what}</p>
              {one.why && (
                <p class="why">
                  <Prose text={one.why} />
                </p>
              )}
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function More({ count, noun, page }: { count: number; noun: string; page: Page }) {
  if (!count) return null;
  return (
    <p class="more">
      <Go page={page} to="findings">
        {plural(count, noun)}
      </Go>
    </p>
  );
}
