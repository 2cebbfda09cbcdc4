/** The roofline: rates of ops over their FLOPs per byte, below the limits of the machine. */

import { XAxis, YAxis, axisWidth } from "../charts/axes";
import { useTable } from "../charts/data";
import { ChartFrame, useBox } from "../charts/frame";
import { Legend, SHAPES, legendHeight } from "../charts/legend";
import { link } from "../charts/links";
import { clearest, pointsOf, ranges, type Limits, type Point } from "../charts/points";
import { logarithmic, spread, type Scale } from "../charts/scale";
import { textWidth } from "../charts/text";
import { tipText, type Tip } from "../charts/tooltip";
import { column, textAt } from "../columns";
import { format } from "../format";
import type { Table } from "../payload";
import { param } from "../state";
import type { BlockProps } from ".";
import "./roofline.css";

const PLOT = 380;
const LINE = 15;
/** From this width on, the names of roofs stand beside the plot. */
const WIDE = 640;
/** Areas of points, as factors of those of a legend: of the smallest and of the op with the largest share. */
const [SMALLEST, LARGEST] = [0.4, 5];
/** Signs of bottlenecks, the same as in tables. */
const LOOKS: Record<string, { colour: string; shape: string }> = {
  compute: { colour: "var(--c1)", shape: SHAPES.square },
  memory: { colour: "var(--c2)", shape: SHAPES.diamond },
  overhead: { colour: "var(--warn)", shape: SHAPES.triangle },
  inefficient: { colour: "var(--bad)", shape: SHAPES.circle },
};
const UNKNOWN = { colour: "var(--muted)", shape: SHAPES.cross };

type Props = BlockProps<"roofline">;

/** The roofline of a block, once its table is decoded. */
export function RooflineBlock({ block, page }: Props) {
  const table = useTable(block.table);
  return table && <Roofline table={table} block={block} page={page} />;
}

function Roofline({ table, block, page }: Props & { table: Table }) {
  const box = useBox();
  const key = block.of === "ops" ? "op" : "module";
  const picked = param(key);
  const open = link(page, block.of);
  const points = pointsOf(table);
  const bounds = [...new Set(points.map((point) => point.bound))].sort();
  const legend = bounds.map((name) => ({ name, ...(LOOKS[name] ?? UNKNOWN) }));
  const wide = box.width >= WIDE;
  const head = legendHeight(legend, box.width);
  const top = head + (wide ? 8 : block.peaks.length * LINE + 4);
  const range = ranges(points, block);
  const y = logarithmic(range.y, [top + PLOT, top]);
  const write = (value: number) => `${format(value, "count")}FLOP/s`;
  const left = axisWidth(y, write);
  const roofs = block.peaks.map((peak) => `${peak.name} ${write(peak.value)}`);
  const beside = wide ? Math.max(...roofs.map(textWidth)) + 8 : 0;
  const right = Math.max(box.width - beside, left + 1);
  const largest = Math.max(...points.map((point) => point.share)) || 1;
  const x = logarithmic(range.x, [left, right], Math.max(3, Math.floor(box.width / 90)));
  const nameOf = (row: number) => textAt(column(table, "name")!, row);

  const tip = (i: number): Tip => {
    const { row, intensity, rate, share } = points[i]!;
    const detail = column(table, "inputs") ?? column(table, "class");
    const limit = column(table, "of_limit")?.numbers?.[row] ?? null;
    return {
      title: nameOf(row),
      text: detail && textAt(detail, row),
      rows: [
        ["share of time", format(share, "share")],
        ["rate", write(rate)],
        ["FLOPs per byte", format(intensity, "ratio")],
        ...(limit === null ? [] : [["of the limit", format(limit, "share")] as [string, string]]),
        ["bottleneck", points[i]!.bound],
      ],
      hint: open && `click: show in the ${block.of}`,
    };
  };
  const pick = (i: number) => {
    const name = nameOf(points[i]!.row);
    picked.value = name;
    open?.({ [key]: name });
  };
  return (
    <ChartFrame
      box={box}
      class="roofline"
      height={top + PLOT + 40}
      name={`roofline ${block.of}`}
      label={`Roofline of ${block.machine}. ${block.caption ?? ""}`}
      tip={tip}
      pick={pick}
    >
      <Legend items={legend} width={box.width} />
      <YAxis scale={y} from={left} to={right} text={write} />
      <XAxis
        scale={x}
        from={top}
        to={top + PLOT}
        text={(tick) => format(tick, "number")}
        title="FLOPs per byte"
        right={right}
      />
      <Roofs limits={block} names={roofs} above={wide ? null : head} x={x} y={y} range={range.x} points={points} />
      {points.map((point, i) => {
        const { colour, shape } = LOOKS[point.bound] ?? UNKNOWN;
        const size = Math.sqrt(SMALLEST + (LARGEST - SMALLEST) * (point.share / largest));
        return (
          <g
            key={point.row}
            data-i={i}
            tabindex={i ? -1 : 0}
            role={open ? "button" : "img"}
            aria-label={tipText(tip(i))}
            class={nameOf(point.row) === picked.value ? "roof-picked" : ""}
            transform={`translate(${x(point.intensity)} ${y(point.rate)}) scale(${size})`}
          >
            <path class="roof-point" d={shape} fill={colour} />
          </g>
        );
      })}
    </ChartFrame>
  );
}

interface RoofProps {
  limits: Limits;
  names: string[];
  /** Where names stand above the plot, in the order of the roofs; null if there is room for them beside it. */
  above: number | null;
  x: Scale;
  y: Scale;
  range: [number, number];
  points: Point[];
}

function Roofs({ limits, names, above, x, y, range, points }: RoofProps) {
  const { peaks, bandwidth } = limits;
  const right = x(range[1]);
  const most = Math.max(...peaks.map((peak) => peak.value));
  const heights = peaks.map((peak) => y(peak.value));
  const places =
    above === null
      ? spread(heights, LINE, Infinity)
      : heights.map((own) => above + LINE * (0.5 + heights.filter((other) => other < own).length));
  const bottom = y.invert(Math.max(...y.ticks.map(y))) / bandwidth;
  const start = Math.max(range[0], Math.min(bottom, most / bandwidth));
  const angle = (Math.atan2(y(bandwidth * 10) - y(bandwidth), x(10) - x(1)) * 180) / Math.PI;
  const where = clearest(points, start, Math.min(...peaks.map((peak) => peak.value)) / bandwidth, bandwidth, x, y);
  return (
    <g class="roofs">
      <path d={`M${x(start)} ${y(start * bandwidth)}L${x(most / bandwidth)} ${y(most)}`} />
      <text
        text-anchor="middle"
        transform={`translate(${x(where)} ${y(where * bandwidth)}) rotate(${angle}) translate(0 -6)`}
      >
        {format(bandwidth, "bytes")}/s
      </text>
      {peaks.map((peak, i) => (
        <g key={peak.name}>
          <path d={`M${x(peak.value / bandwidth)} ${y(peak.value)}H${right}`} />
          <text
            x={above === null ? right + 6 : right}
            y={places[i]}
            text-anchor={above === null ? "start" : "end"}
            dominant-baseline="central"
          >
            {names[i]}
          </text>
        </g>
      ))}
    </g>
  );
}
