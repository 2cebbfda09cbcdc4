/** The table of tensors beside the details of the selected one. */

import { useMemo } from "preact/hooks";
import { useSection, useTable } from "../charts/data";
import { selectedRow } from "../charts/selected";
import { column, textAt } from "../columns";
import type { Page, Table, TensorDetails } from "../payload";
import { param } from "../state";
import { BarChart } from "./bars";
import { LineChart } from "./lines";
import { Histogram } from "./histogram";
import { TableBlock } from "./table";
import type { BlockProps } from ".";
import "./tensors.css";

/** The table with links in its names, and the tensor that they select. */
export function TensorsBlock({ block, page }: BlockProps<"tensors">) {
  const table = useTable(block.table);
  const details = useSection<TensorDetails>(block.details);
  return table && <Tensors table={table} details={details} page={page} />;
}

function Tensors({ table, details, page }: { table: Table; details: TensorDetails | null; page: Page }) {
  const linked = useMemo(
    (): Table => ({
      ...table,
      columns: table.columns.map((one) => (one.key === "name" ? { ...one, link: "tensor" } : one)),
    }),
    [table],
  );
  const row = selectedRow(table, param("tensor").value);
  const title = column(table, "name");
  return (
    <div class="tensors">
      <TableBlock block={{ kind: "table", id: "tensors", table: linked }} page={page} />
      <aside class="tensor" aria-label="Selected tensor">
        {title && <h3>{textAt(title, row)}</h3>}
        <p class="muted">
          {["shape", "dtype", "bytes"]
            .flatMap((key) => column(table, key) ?? [])
            .map((of) => textAt(of, row))
            .join(" · ")}
        </p>
        {details && <Details table={table} details={details} row={row} />}
      </aside>
    </div>
  );
}

function Details({ table, details, row }: { table: Table; details: TensorDetails; row: number }) {
  const at = details.rows.indexOf(row);
  const name = textAt(column(table, "name")!, row);
  if (at < 0)
    return (
      <p>No histogram of this tensor is in the report: its values were not read, or there are too many tensors.</p>
    );
  const ratios = details.formats.flatMap((format, i) => {
    const ratio = details.sqnr_db[at]?.[i] ?? null;
    return ratio === null ? [] : [{ name: format, ratio }];
  });
  const most = Math.max(1, ...ratios.map(({ ratio }) => (typeof ratio === "string" ? 0 : ratio)));
  const curve = details.pruning[at] ?? [];
  return (
    <>
      <h4>Values</h4>
      <Histogram
        name={`${name}-histogram`}
        low={details.low[at]!}
        high={details.high[at]!}
        counts={details.counts[at]!}
        probabilities={details.probabilities}
        quantiles={details.quantiles[at] ?? []}
      />
      {ratios.length > 0 && (
        <>
          <h4>Signal-to-noise ratio when rounded, dB</h4>
          <BarChart
            bars={ratios.map(({ name, ratio }) => ({
              name,
              value: ratio === "exact" ? most : ratio === "overflows" ? 0 : Math.max(ratio, 0),
            }))}
            text={(bar) => {
              const { ratio } = ratios.find((one) => one.name === bar.name)!;
              return typeof ratio === "string" ? ratio : ratio.toFixed(1);
            }}
            unit="ratio"
            name={`${name}-precision`}
            label="Signal-to-noise ratio by format, in dB"
          />
        </>
      )}
      {curve.length > 1 && (
        <>
          <h4>Energy kept when the smallest are set to zero</h4>
          <LineChart
            x={{ title: "share set to zero", unit: "share", values: curve.map(([share]) => share) }}
            series={[{ name: "energy kept", values: curve.map(([, kept]) => kept) }]}
            unit="share"
            name={`${name}-pruning`}
            label="Share of the energy kept over the share of values set to zero"
            plot={110}
          />
        </>
      )}
    </>
  );
}
