/** The time line of one pass: nested calls and the ops in them, with zoom. */

import { useMemo, useState } from "preact/hooks";
import { XAxis } from "../charts/axes";
import { useBrush } from "../charts/brush";
import { OTHER, byAmount, ground } from "../charts/colours";
import { useSection } from "../charts/data";
import { ChartFrame, useBox } from "../charts/frame";
import { Legend, legendHeight } from "../charts/legend";
import { link } from "../charts/links";
import { linear } from "../charts/scale";
import { fit } from "../charts/text";
import { beside, placed, visible, wholeOf, zoomed, type Period } from "../charts/timeline";
import { tipText, type Tip } from "../charts/tooltip";
import { format } from "../format";
import type { Page, Spans } from "../payload";
import { module } from "../state";
import type { BlockProps } from ".";
import "./spans.css";

const ROW = 20;
const TOP = 8;
const MODULE = "var(--rule)";

/** The spans of a block, once they are decoded. */
export function SpansBlock({ block, page }: BlockProps<"spans">) {
  const spans = useSection<Spans>(block.section);
  return (
    spans && <TimeLine spans={spans} page={page} label={block.caption ?? block.title ?? "Time line of one pass"} />
  );
}

/** The colours of the ops that take the most time. */
function opColours(spans: Spans): Map<string, string> {
  const times = new Map<string, number>();
  spans.op.forEach((op, i) => {
    const name = spans.words[spans.names[i]!]!;
    if (op) times.set(name, (times.get(name) ?? 0) + spans.duration_s[i]!);
  });
  return byAmount(times);
}

function TimeLine({ spans, page, label }: { spans: Spans; page: Page; label: string }) {
  const box = useBox();
  const open = link(page, "modules");
  const whole = useMemo(() => wholeOf(spans), [spans]);
  const colours = useMemo(() => opColours(spans), [spans]);
  const [period, setPeriod] = useState(whole);
  const x = linear(period, [0, box.width], Math.max(3, box.width / 140));
  const select = (chosen: Period) => setPeriod([Math.max(whole[0], chosen[0]), Math.min(whole[1], chosen[1])]);
  const { brush, dragged, onMouseDown } = useBrush(x, select);
  const zoom = (by: number, around?: number) => setPeriod(zoomed(period, by, whole, around));

  const { drawn, short } = useMemo(() => visible(spans, period, box.width || 1), [spans, period, box.width]);
  const levels = drawn.reduce((most, i) => Math.max(most, spans.depth[i]! + 1), 1);
  const base = TOP + levels * ROW;
  const nameOf = (i: number) => spans.words[spans.names[i]!]!;
  const pathOf = (i: number) => spans.words[spans.paths[i]!] ?? "";
  const textOf = (i: number) => (spans.op[i] ? nameOf(i) : `${pathOf(i).split(".").at(-1)} · ${nameOf(i)}`);
  const fill = (i: number) => {
    const colour = colours.get(nameOf(i));
    return !spans.op[i] ? MODULE : colour ? ground(colour) : OTHER;
  };
  const used = new Set(drawn.filter((i) => spans.op[i]).map(nameOf));
  const legend = [...colours]
    .filter(([name]) => used.has(name))
    .map(([name, colour]) => ({ name, colour: ground(colour) }));
  if (used.size > legend.length) legend.push({ name: "other ops", colour: OTHER });
  legend.push({ name: "modules", colour: MODULE });

  const tip = (i: number): Tip => ({
    title: spans.op[i] ? nameOf(i) : pathOf(i),
    text: spans.op[i] ? pathOf(i) : nameOf(i),
    rows: [
      ["start", format(spans.start_s[i]! - whole[0], "seconds")],
      ["duration", format(spans.duration_s[i]!, "seconds")],
      ["share of the pass", format(spans.duration_s[i]! / (whole[1] - whole[0]), "share")],
    ],
    hint: open && "Ctrl-click: show in the tree",
  });
  const pick = (i: number, event: MouseEvent | KeyboardEvent) => {
    if (event instanceof MouseEvent && dragged.current) return;
    module.value = pathOf(i);
    if (event.ctrlKey || event.metaKey) open?.({ module: pathOf(i) });
  };
  const press = (event: KeyboardEvent) => {
    const length = period[1] - period[0];
    const pan = { ArrowLeft: -0.25, ArrowRight: 0.25 }[event.key];
    if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "0") setPeriod(whole);
    else if (pan && event.shiftKey) setPeriod(placed(period[0] + pan * length, length, whole));
    else return false;
    return true;
  };
  const onWheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const left = (event.currentTarget as Element).getBoundingClientRect().left;
    zoom(event.deltaY > 0 ? 1.25 : 0.8, x.invert(event.clientX - left));
  };
  return (
    <ChartFrame
      box={box}
      class="spans"
      height={base + 28 + legendHeight(legend, box.width)}
      name="timeline"
      label={`${label}. ${spans.how}`}
      controls={<Zoom zoom={zoom} reset={() => setPeriod(whole)} short={short} />}
      tip={tip}
      pick={pick}
      press={press}
      move={(i, key) => beside(spans.depth, drawn, i, key)}
      svg={{ onWheel, onMouseDown }}
    >
      <XAxis scale={x} from={base} to={TOP} text={(tick) => format(tick - whole[0], "seconds")} right={box.width} />
      {drawn.map((i, n) => {
        const left = Math.max(0, x(spans.start_s[i]!));
        const wide = Math.min(box.width, x(spans.start_s[i]! + spans.duration_s[i]!)) - left;
        return (
          <g key={i} transform={`translate(${left} ${TOP + spans.depth[i]! * ROW})`}>
            <rect
              data-i={i}
              tabindex={n ? -1 : 0}
              role="button"
              aria-label={tipText(tip(i))}
              class={module.value && pathOf(i) === module.value ? "span span-picked" : "span"}
              width={Math.max(wide, 0.5)}
              height={ROW - 1}
              fill={fill(i)}
            />
            <text aria-hidden="true" x={4} y={ROW / 2} dominant-baseline="central">
              {fit(textOf(i), wide - 6)}
            </text>
          </g>
        );
      })}
      {brush && (
        <rect
          class="span-brush"
          data-screen=""
          x={x(brush[0])}
          y={0}
          width={x(brush[1]) - x(brush[0])}
          height={base}
        />
      )}
      <Legend items={legend} width={box.width} y={base + 28} />
    </ChartFrame>
  );
}

function Zoom({ zoom, reset, short }: { zoom: (by: number) => void; reset: () => void; short: number }) {
  return (
    <>
      <span class="span-zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="+" onClick={() => zoom(0.5)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" title="-" onClick={() => zoom(2)}>
          −
        </button>
        <button type="button" title="0" onClick={reset}>
          whole pass
        </button>
      </span>
      <span class="muted">Drag to zoom{short > 0 && `; ${format(short, "exact")} spans are too short to draw`}</span>
    </>
  );
}
