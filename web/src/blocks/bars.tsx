/** Horizontal bars: parts, ranges, notes and links to modules. */

import { CATEGORIES } from "../charts/colours";
import { ChartFrame, useBox } from "../charts/frame";
import { Legend, legendHeight } from "../charts/legend";
import { link } from "../charts/links";
import { linear, type Scale } from "../charts/scale";
import { fit, fitEnd, textWidth } from "../charts/text";
import { tipText, type Tip } from "../charts/tooltip";
import { format } from "../format";
import type { Bar, Unit } from "../payload";
import type { BlockProps } from ".";
import "./bars.css";

const ROW = 24;
const THICK = 12;
const GAP = 12;

/** The bars of a block, with links to the modules that they stand for. */
export function BarsBlock({ block, page }: BlockProps<"bars">) {
  return (
    <BarChart
      bars={block.bars}
      text={(bar) => format(bar.value, block.unit)}
      unit={block.unit}
      name={block.title ?? "bars"}
      label={block.caption ?? block.title ?? "Bars"}
      how={block.how}
      open={link(page, "modules")}
    />
  );
}

interface Props {
  bars: Bar[];
  /** Writes the number beside a bar. */
  text: (bar: Bar) => string;
  unit: Unit;
  name: string;
  label: string;
  how?: string | undefined;
  open?: ((values: Record<string, string>) => void) | undefined;
}

/** Horizontal bars with their names on the left and their numbers on the right. */
export function BarChart({ bars, text, unit, name, label, how, open }: Props) {
  const box = useBox();
  const { width } = box;
  const parts = [...new Set(bars.flatMap((bar) => bar.parts?.map((part) => part.name) ?? []))];
  const colours = new Map(parts.map((part, i) => [part, CATEGORIES[i % CATEGORIES.length]!]));
  const items = [...colours].map(([part, colour]) => ({ name: part, colour }));
  const top = legendHeight(items, width);
  const widest = (texts: string[]) => Math.ceil(Math.max(0, ...texts.map(textWidth)));
  const names = Math.min(widest(bars.map((bar) => bar.name)), Math.floor(width * (width < 480 ? 0.5 : 0.36))) + GAP;
  const numbers = widest(bars.map(text)) + GAP;
  const notes = width < 480 ? 0 : Math.min(widest(bars.map((bar) => bar.note ?? "")) + GAP, width * 0.4);
  const most = Math.max(0, ...bars.map((bar) => Math.max(bar.value, bar.high ?? 0))) || 1;
  const x = linear([0, most], [names, Math.max(names + 20, width - numbers - notes)]);
  const linked = (bar: Bar) => !!open && bar.link !== undefined;

  const tip = (i: number): Tip => {
    const bar = bars[i]!;
    const rows: [string, string][] = [["value", text(bar)]];
    if (bar.low != null && bar.high != null)
      rows.push(["range", `${format(bar.low, unit)} – ${format(bar.high, unit)}`]);
    for (const part of bar.parts ?? []) rows.push([part.name, format(part.value, unit)]);
    return {
      title: bar.name,
      text: bar.note ?? how,
      rows,
      hint: linked(bar) ? "click: show in the tree" : undefined,
    };
  };
  const pick = (i: number) => {
    const to = bars[i]!.link;
    if (to !== undefined) open?.({ module: to });
  };
  return (
    <ChartFrame box={box} height={top + bars.length * ROW + 4} name={name} label={label} tip={tip} pick={pick}>
      <Legend items={items} width={width} />
      {bars.map((bar, i) => (
        <g key={i} transform={`translate(0 ${top + (i + 0.5) * ROW})`}>
          <rect
            data-i={i}
            tabindex={i ? -1 : 0}
            class="bar-row"
            role={linked(bar) ? "button" : "img"}
            aria-label={tipText(tip(i))}
            y={-ROW / 2}
            width={width}
            height={ROW}
          />
          <text aria-hidden="true" class={linked(bar) ? "bar-link" : ""} dominant-baseline="central">
            {(linked(bar) ? fitEnd : fit)(bar.name, names - GAP)}
          </text>
          <Marks bar={bar} x={x} colours={colours} end={width - numbers} />
          <text aria-hidden="true" x={width} text-anchor="end" dominant-baseline="central">
            {text(bar)}
          </text>
        </g>
      ))}
    </ChartFrame>
  );
}

function Marks({ bar, x, colours, end }: { bar: Bar; x: Scale; colours: Map<string, string>; end: number }) {
  let from = 0;
  const after = x(Math.max(bar.value, bar.high ?? 0)) + 8;
  return (
    <>
      {(bar.parts ?? [{ name: "", value: bar.value }]).map((part) => {
        const left = x(from);
        from += part.value;
        const fill = colours.get(part.name) ?? CATEGORIES[0]!;
        return <rect key={part.name} x={left} y={-THICK / 2} width={x(from) - left} height={THICK} fill={fill} />;
      })}
      {bar.low != null && bar.high != null && (
        <path class="bar-range" d={`M${x(bar.low)} -4v8m0 -4H${x(bar.high)}m0 -4v8`} />
      )}
      {bar.note && (
        <text aria-hidden="true" class="dim" x={after} dominant-baseline="central">
          {fit(bar.note, end - after)}
        </text>
      )}
    </>
  );
}
