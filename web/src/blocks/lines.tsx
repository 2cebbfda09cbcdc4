/** Series over a common x: lines with points and ranges, linear or logarithmic. */

import { XAxis, YAxis, axisWidth } from "../charts/axes";
import { CATEGORIES } from "../charts/colours";
import { ChartFrame, useBox } from "../charts/frame";
import { Legend, legendHeight } from "../charts/legend";
import { extent, linear, logarithmic, roundUp, spread, type Scale } from "../charts/scale";
import { geometric, linePath } from "../charts/series";
import { fit, textWidth } from "../charts/text";
import { type Tip } from "../charts/tooltip";
import { format } from "../format";
import type { Axis, Line, Unit } from "../payload";
import type { BlockProps } from ".";
import "./lines.css";

/** Lines with more points than this are drawn without a dot at each. */
const DOTS = 60;
/** So few x values are themselves the ticks. */
const FEW = 12;
/** From this width on, lines have their names at their ends instead of in a legend. */
const WIDE = 560;

/** The lines of a block. */
export function LinesBlock({ block }: BlockProps<"lines">) {
  return (
    <LineChart {...block} name={block.title ?? "lines"} label={block.caption ?? block.title ?? "Lines"} plot={240} />
  );
}

interface Props {
  x: Axis;
  series: Line[];
  unit: Unit;
  log?: boolean | undefined;
  name: string;
  label: string;
  /** The height of the plot, without axes and legend. */
  plot: number;
}

/** Lines over a common x axis; a hover reads all of them at one x. */
export function LineChart({ x: axis, series, unit, log, name, label, plot }: Props) {
  const box = useBox();
  const known = (value: number | null | undefined): value is number =>
    value !== null && value !== undefined && Number.isFinite(value) && (!log || value > 0);
  const colour = (i: number) => CATEGORIES[i % CATEGORIES.length]!;
  const named = series.length > 1;
  const direct = named && series.length <= CATEGORIES.length && box.width >= WIDE;
  const items = named && !direct ? series.map((line, i) => ({ name: line.name, colour: colour(i) })) : [];
  const top = legendHeight(items, box.width) + 12;
  const base = top + plot;
  const all = extent(
    series.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])].filter(known)),
  );
  const [least, most] = all ?? [0, 1];
  const rows = plot > 150 ? 6 : 2;
  const y = log
    ? logarithmic([least, most], [base, top], 5)
    : linear([Math.min(0, least), roundUp(most, rows, unit)], [base, top], rows, unit);
  const write = (value: number) => format(value, unit);
  const left = axisWidth(y, write);
  const names = direct ? Math.min(160, Math.max(...series.map((line) => textWidth(line.name)))) + 12 : 8;
  const range = extent(axis.values) ?? [0, 1];
  const scale = log && geometric(axis.values) ? logarithmic : linear;
  const x = scale(
    range,
    [left, Math.max(left + 1, box.width - names)],
    Math.max(2, Math.floor(box.width / 80)),
    axis.unit,
  );
  if (axis.values.length <= FEW) x.ticks = axis.values;

  const tip = (i: number): Tip => ({
    title: `${axis.title} ${format(axis.values[i]!, axis.unit)}`,
    rows: series.map((line) => {
      const [low, high] = [line.low?.[i], line.high?.[i]];
      const spread = known(low) && known(high) ? ` (${format(low, unit)} – ${format(high, unit)})` : "";
      return [line.name, format(line.values[i] ?? null, unit) + spread];
    }),
  });
  const nearest = (pixel: number): number => {
    let best = 0;
    axis.values.forEach((value, i) => {
      if (Math.abs(x(value) - pixel) < Math.abs(x(axis.values[best]!) - pixel)) best = i;
    });
    return best;
  };
  const dots = (i: number) =>
    series.map((line, s) => {
      const value = line.values[i];
      return (
        known(value) && (
          <circle key={s} class="line-dot" cx={x(axis.values[i]!)} cy={y(value)} r={4} fill={colour(s)} />
        )
      );
    });
  return (
    <ChartFrame
      box={box}
      height={base + 40}
      name={name}
      label={label}
      tip={tip}
      count={axis.values.length}
      at={(at) => (axis.values.length ? nearest(at) : null)}
      cursor={(i) => ({
        x: x(axis.values[i]!),
        y: top + 8,
        draw: (
          <>
            <line class="cursor" x1={x(axis.values[i]!)} x2={x(axis.values[i]!)} y1={top} y2={base} />
            {dots(i)}
          </>
        ),
      })}
    >
      <Legend items={items} width={box.width} />
      <YAxis scale={y} from={left} to={box.width - names} text={write} />
      <XAxis
        scale={x}
        from={base}
        to={base}
        text={(tick) => format(tick, axis.unit)}
        title={axis.title}
        right={box.width - names}
      />
      {series.map((line, i) => (
        <LineMarks
          key={i}
          line={line}
          at={axis.values}
          x={x}
          y={y}
          known={known}
          colour={colour(i)}
          dashed={i >= CATEGORIES.length}
        />
      ))}
      {direct && (
        <Names
          series={series}
          y={y}
          known={known}
          at={box.width - names + 8}
          limit={base}
          room={names - 8}
          colour={colour}
        />
      )}
    </ChartFrame>
  );
}

type Known = (value: number | null | undefined) => value is number;

function LineMarks(props: {
  line: Line;
  at: number[];
  x: Scale;
  y: Scale;
  known: Known;
  colour: string;
  dashed: boolean;
}) {
  const { line, at, x, y, known, colour } = props;
  const points = (values: (number | null)[]) =>
    at.map((where, i): [number, number] | null => (known(values[i]) ? [x(where), y(values[i])] : null));
  const marks = points(line.values);
  const band =
    line.low && line.high && [points(line.low), points(line.high)].map((edge) => edge.filter((point) => !!point));
  return (
    <g>
      {band && <path class="line-band" fill={colour} d={`${linePath([...band[0]!, ...band[1]!.reverse()])}Z`} />}
      <path class="line" stroke={colour} stroke-dasharray={props.dashed ? "5 3" : undefined} d={linePath(marks)} />
      {at.length <= DOTS &&
        marks.map(
          (point, i) => point && <circle key={i} class="line-dot" cx={point[0]} cy={point[1]} r={3} fill={colour} />,
        )}
    </g>
  );
}

function Names(props: {
  series: Line[];
  y: Scale;
  known: Known;
  at: number;
  limit: number;
  room: number;
  colour: (i: number) => string;
}) {
  const ends = props.series.map((line) => line.values.findLast(props.known) ?? null);
  const wanted = ends.map((value) => (value === null ? props.limit : props.y(value)));
  const placed = spread(wanted, 15, props.limit);
  return (
    <g class="line-names">
      {props.series.map((line, i) => (
        <text key={i} x={props.at} y={placed[i]} dominant-baseline="central" style={{ fill: props.colour(i) }}>
          {fit(line.name, props.room)}
        </text>
      ))}
    </g>
  );
}
