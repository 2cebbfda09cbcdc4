/** The module tree as areas: an icicle or a treemap of parameters, time, memory, FLOPs or energy. */

import { useMemo } from "preact/hooks";
import { Choice } from "../charts/choice";
import { useTable } from "../charts/data";
import { ChartFrame, useBox } from "../charts/frame";
import { Legend, legendHeight } from "../charts/legend";
import { link } from "../charts/links";
import { Modules } from "../charts/modules";
import { amountsOf, icicle, levelsOf, neighbour, treemap } from "../charts/tiles";
import { tipText, type Tip } from "../charts/tooltip";
import { column, textAt } from "../columns";
import { format } from "../format";
import { Go } from "../go";
import type { Column, Page, Table } from "../payload";
import { module, param } from "../state";
import { Crumbs } from "./crumbs";
import { TileMark, tileColours } from "./tile";
import type { BlockProps } from ".";
import "./map.css";

/** Heights of a level, least and most, and of all of them together. */
const SIZES = { small: { least: 16, most: 40, all: 160 }, large: { least: 30, most: 48, all: 420 } };
const LAYOUTS = ["icicle", "treemap"].map((value) => ({ value, text: value }));

/** The map of a block, once its table is decoded. */
export function MapBlock({ block, page }: BlockProps<"map">) {
  const table = useTable(block.table);
  return (
    table && (
      <ModuleMap table={table} metrics={block.metrics} small={!!block.small} page={page} label={block.caption} />
    )
  );
}

interface Props {
  table: Table;
  metrics: string[];
  small: boolean;
  page: Page;
  label: string | undefined;
}

const isKnown = (of: Column | undefined) => !!of?.numbers?.some((value) => value !== null);

function ModuleMap({ table, metrics, small, page, label }: Props) {
  const box = useBox();
  const metric = param("metric");
  const layout = param("layout", "icicle");
  const colour = param("colour", "class");
  const zoom = param("zoom");
  const open = link(page, "modules");

  const options = useMemo(
    () =>
      metrics.map((value) => {
        const of = column(table, value);
        return {
          value,
          text: of?.title ?? value,
          why: isKnown(of) ? undefined : of?.how || "not known for any module",
        };
      }),
    [table, metrics],
  );
  const usable = options.filter((one) => !one.why);
  const key = (usable.find((one) => one.value === metric.value) ?? usable[0])?.value ?? "";
  const values = column(table, key);
  const modules = useMemo(() => new Modules(table), [table]);
  const { tree } = modules;
  const amounts = useMemo(() => (values ? amountsOf(tree, values) : new Float64Array(table.rows)), [tree, values]);
  const root = zoom.value ? Math.max(0, modules.row(zoom.value)) : 0;
  const nested = !small && layout.value === "treemap";
  const tiles = useMemo(() => {
    const areas = { tree, amounts, run: table.run ?? [] };
    if (nested) return treemap(areas, root, box.width, Math.min(560, Math.max(320, box.width / 2)));
    const flat = icicle(areas, root, box.width);
    const { least, most, all } = small ? SIZES.small : SIZES.large;
    const levels = levelsOf(flat);
    const height = Math.max(least, Math.min(most, Math.floor(all / levels)));
    const shown = small ? Math.floor(all / height) : levels;
    return flat.filter((tile) => tile.level < shown).map((tile) => ({ ...tile, y: tile.level * height, height }));
  }, [tree, amounts, root, box.width, nested, small]);
  const plot = tiles.reduce((most, tile) => Math.max(most, tile.y + tile.height), 0);
  const heat = usable.some((one) => one.value === colour.value) ? column(table, colour.value) : undefined;
  const { look, legend } = tileColours(modules, tiles, heat);

  const valueText = (row: number) => {
    const text = format(amounts[row]!, values?.unit ?? "number");
    return values?.numbers?.[row] === null ? `≥ ${text}` : text;
  };
  const share = (row: number, of: number) => format(amounts[row]! / (amounts[of] || 1), "share");
  const tip = (i: number): Tip => {
    const { row, more } = tiles[i]!;
    if (more)
      return { title: `${more} modules in ${modules.path(row)}`, text: "too small to draw: zoom in to see them" };
    const rows: [string, string][] = [
      [values?.title ?? "", valueText(row)],
      ["of the model", share(row, 0)],
    ];
    if (root) rows.push([`of ${modules.name(root)}`, share(row, root)]);
    if (heat && heat !== values) rows.push([heat.title, textAt(heat, row)]);
    return {
      title: modules.path(row),
      text: modules.className(row),
      rows,
      hint: open && "click: zoom · Ctrl-click: show in the tree",
    };
  };

  const enter = (row: number) => void (zoom.value = row > 0 ? modules.key(row) : "");
  const focusFirst = () =>
    requestAnimationFrame(() => box.ref.current?.querySelector<SVGElement>('[data-i="0"]')?.focus());
  const pick = (i: number, event: MouseEvent | KeyboardEvent) => {
    const { row, more } = tiles[i]!;
    const path = modules.module(row);
    if (path !== undefined && !more) module.value = path;
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      if (path !== undefined) open?.({ module: path });
    } else if (row === root && !more) enter(modules.around(root));
    else if (tree.end[row]! > row + 1) enter(row);
    else return;
    if (event instanceof KeyboardEvent) focusFirst();
  };
  const press = (event: KeyboardEvent) => {
    if (!root || (event.key !== "Backspace" && event.key !== "Escape")) return false;
    enter(modules.around(root));
    focusFirst();
    return true;
  };
  const controls = (
    <>
      <Choice label="Area" options={options} value={key} pick={(value) => (metric.value = value)} />
      {small ? (
        <Go page={page} to="map">
          Open the map
        </Go>
      ) : (
        <>
          <Choice label="Layout" options={LAYOUTS} value={layout.value} pick={(value) => (layout.value = value)} />
          <label class="map-colour">
            Colour
            <select
              value={heat ? colour.value : "class"}
              onChange={(event) => (colour.value = event.currentTarget.value)}
            >
              <option value="class">class</option>
              {usable.map((one) => (
                <option key={one.value} value={one.value}>
                  share of {one.text}
                </option>
              ))}
            </select>
          </label>
        </>
      )}
      {root > 0 && <Crumbs rows={modules.trail(root)} modules={modules} page={page} enter={enter} />}
    </>
  );
  const picked = module.value ? modules.row(module.value) : -1;
  return (
    <ChartFrame
      box={box}
      class="map"
      height={plot + 8 + legendHeight(legend, box.width)}
      name={`map-${key}`}
      label={label ?? `Modules by ${values?.title ?? key}`}
      controls={controls}
      tip={tip}
      pick={pick}
      move={(i, pressed) => neighbour(tiles, i, pressed)}
      press={press}
    >
      {tiles.map((tile, i) => (
        <TileMark
          key={`${tile.row} ${tile.more ? tile.x : ""}`}
          tile={tile}
          mark={i}
          label={tipText(tip(i))}
          name={tile.more ? "" : modules.name(tile.row)}
          value={valueText(tile.row)}
          head={nested && tiles[i + 1]?.parent === i}
          picked={tile.row === picked && !tile.more}
          {...look(tile)}
        />
      ))}
      <Legend items={legend} width={box.width} y={plot + 8} />
    </ChartFrame>
  );
}
