/** A heat map of rows by statistics, coloured by how far each value is from what is typical: outliers stand out. */

import { useId, useMemo, useRef } from "preact/hooks";
import { Choice } from "../charts/choice";
import { HEAT, ON_HEAT, heatStep } from "../charts/colours";
import { useTable } from "../charts/data";
import { deviations, groupsOf, rowsToDraw, type Deviation } from "../charts/deviation";
import { ChartFrame, useBox } from "../charts/frame";
import { Legend, legendHeight } from "../charts/legend";
import { fit, fitEnd, textWidth } from "../charts/text";
import { tipText, type Tip } from "../charts/tooltip";
import { column, textAt, valueAt } from "../columns";
import { format } from "../format";
import type { Column, Page, Table } from "../payload";
import { module, param } from "../state";
import type { BlockProps } from ".";
import "./heat.css";

const ROW = 18;
/** In columns narrower than this, headings are slanted. */
const SLANTED = 64;
/** Typical distances from the median at which a cell is one step darker. */
const STEPS = [2, 3.5, 6, 10];
const LEGEND = HEAT.map((colour, i) => ({ colour, name: i ? `≥ ${STEPS[i - 1]}` : "typical" }));

/** Counts of values that should not be there: any is far from what is usual. */
const COUNTS = new Set(["nan", "inf"]);

function present(counts: (number | null)[]): (Deviation | null)[] {
  return counts.map((count) => count === null ? null : { by: count ? Infinity : 0, median: 0, group: "", count: counts.length });
}

/** The heat map of a block, once its table is decoded. */
export function HeatBlock({ block, page }: BlockProps<"heat">) {
  const table = useTable(block.table);
  return (
    table && <Heat table={table} statistics={block.statistics} page={page} label={block.caption ?? block.title} />
  );
}

/** A value with its direction, or the direction alone if there is no room. */
function signed(by: number, text: string, width: number): string {
  const sign = by < 0 ? "▼" : "▲";
  return textWidth(`${sign} ${text}`) <= width ? `${sign} ${text}` : fit(sign, width);
}

function tipRows({ by, median, group, count }: Deviation, of: Column): [string, string][] {
  const size = Math.abs(by);
  const far = size < 1000 ? `${format(size, "ratio")} × the usual distance` : "far from all others";
  return [
    [`median of ${count} ${group || "rows"}`, format(median, of.unit)],
    ["deviation", `${by < 0 ? "▼" : by > 0 ? "▲" : ""} ${far}`],
  ];
}

function Heat(props: { table: Table; statistics: string[]; page: Page; label: string | undefined }) {
  const { table, statistics } = props;
  const box = useBox();
  const hatch = useId();
  const head = useRef<SVGGElement>(null);
  const order = param("heat", "deviation");
  const name = column(table, "name") ?? table.columns.find((one) => one.words)!;
  const columns = useMemo(() => statistics.flatMap((key) => column(table, key) ?? []), [table, statistics]);
  const cells = useMemo(() => {
    const family = column(table, "family");
    const groups = Array.from({ length: table.rows }, (_, row) =>
      groupsOf(textAt(name, row), family ? (valueAt(family, row) as string | null) : null),
    );
    return columns.map((of) => (COUNTS.has(of.key) ? present(of.numbers ?? []) : deviations(of.numbers ?? [], groups)));
  }, [table, columns]);
  const rows = useMemo(() => rowsToDraw(cells, table.rows, order.value === "deviation"), [cells, table, order.value]);
  const names = Math.min(Math.max(...rows.map((row) => textWidth(textAt(name, row))), 40), box.width * 0.38) + 12;
  const slanted = (box.width - names) / columns.length < SLANTED;
  const room = box.width - names - (slanted ? 48 : 0); // the last slanted heading ends beyond its column
  const wide = Math.min(96, Math.max(4, room / columns.length));
  const top = legendHeight(LEGEND, box.width) + (slanted ? 64 : 20);

  const tip = (mark: number): Tip => {
    const [row, at] = [rows[Math.floor(mark / columns.length)]!, mark % columns.length];
    const of = columns[at]!;
    const cell = cells[at]![row];
    const rest = cell ? tipRows(cell, of) : [];
    return {
      title: textAt(name, row),
      rows: [[of.title, textAt(of, row)], ...rest],
      text: cell ? undefined : of.how || "unknown",
    };
  };
  const choices = [
    { value: "table", text: "table order" },
    { value: "deviation", text: "largest deviation first" },
  ];
  const pick = (mark: number) => {
    const selected = name.link === "module" ? module : param("tensor");
    selected.value = textAt(name, rows[Math.floor(mark / columns.length)]!);
  };
  return (
    <ChartFrame
      box={box}
      class="heat"
      height={top + rows.length * ROW + 4}
      name="heat-map"
      label={props.label ?? "Deviations of statistics"}
      controls={
        <>
          <Choice label="Rows" options={choices} value={order.value} pick={(value) => (order.value = value)} />
          {rows.length < table.rows && (
            <span class="muted">
              the {rows.length} of {table.rows.toLocaleString("en")} rows with the largest deviations
            </span>
          )}
        </>
      }
      tip={tip}
      pick={pick}
      move={(mark, key) => {
        const next =
          mark + { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns.length, ArrowDown: columns.length }[key]!;
        return next >= 0 && next < rows.length * columns.length ? next : null;
      }}
      scroll={(at) => head.current?.setAttribute("transform", `translate(0 ${at})`)}
    >
      <defs>
        <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <line class="heat-hatch" y2="6" />
        </pattern>
      </defs>
      {rows.map((row, r) => (
        <g key={row} transform={`translate(0 ${top + r * ROW})`}>
          <text y={ROW / 2} dominant-baseline="central">
            {fitEnd(textAt(name, row), names - 12)}
          </text>
          {columns.map((of, c) => {
            const cell = cells[c]![row];
            const step = cell ? heatStep(Math.abs(cell.by), STEPS) : 0;
            const mark = r * columns.length + c;
            return (
              <g
                key={c}
                data-i={mark}
                tabindex={mark ? -1 : 0}
                role="img"
                aria-label={tipText(tip(mark))}
                transform={`translate(${names + c * wide} 0)`}
              >
                <rect
                  class="heat-cell"
                  width={wide - 1}
                  height={ROW - 1}
                  fill={cell ? HEAT[step] : `url(#${hatch})`}
                />
                {step > 2 && (
                  <text
                    aria-hidden="true"
                    x={wide / 2}
                    y={ROW / 2}
                    text-anchor="middle"
                    dominant-baseline="central"
                    style={{ fill: ON_HEAT[step] }}
                  >
                    {signed(cell!.by, textAt(of, row), wide - 4)}
                  </text>
                )}
              </g>
            );
          })}
        </g>
      ))}
      <g ref={head} data-sticky="">
        <rect class="heat-head" width={box.width} height={top} />
        <Legend items={LEGEND} width={box.width} />
        {columns.map((of, c) => (
          <text
            key={c}
            class="dim"
            text-anchor={slanted ? "start" : "middle"}
            transform={`translate(${names + (c + 0.5) * wide} ${top - 6})${slanted ? " rotate(-48)" : ""}`}
          >
            {fit(of.title, slanted ? 72 : wide - 2)}
          </text>
        ))}
      </g>
    </ChartFrame>
  );
}
