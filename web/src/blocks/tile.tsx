/** One box of a map: its colour and its text. */

import { HEAT, ON_HEAT, OTHER, ground, heatStep } from "../charts/colours";
import type { LegendItem } from "../charts/legend";
import type { Modules } from "../charts/modules";
import { fit, textWidth } from "../charts/text";
import type { Tile } from "../charts/tiles";
import type { Column } from "../payload";

/** Shares of the whole from which on a box is one step darker. */
const STEPS = [0.01, 0.05, 0.1, 0.25];
const LINE = 16;
const EDGE = 6;

interface Look {
  fill: string;
  ink: string;
}

/** The colours of boxes, by class or by a share, and the legend to them. */
export function tileColours(
  modules: Modules,
  tiles: Tile[],
  heat: Column | undefined,
): { look: (tile: Tile) => Look; legend: LegendItem[] } {
  if (heat) {
    const whole = heat.numbers?.[0] || 1;
    const step = ({ row }: Tile) => heatStep((heat.numbers?.[row] ?? 0) / whole, STEPS);
    const names = ["< 1 %", ...STEPS.map((share) => `≥ ${100 * share} %`)];
    return {
      look: (tile) => (tile.more ? { fill: OTHER, ink: "" } : { fill: HEAT[step(tile)]!, ink: ON_HEAT[step(tile)]! }),
      legend: names.map((name, i) => ({ name: i ? name : `${heat.title} ${name}`, colour: HEAT[i]! })),
    };
  }
  const used = new Set(tiles.map((tile) => modules.className(tile.row)));
  const legend = [...modules.colours]
    .filter(([name]) => used.has(name))
    .map(([name, colour]) => ({ name, colour: ground(colour) }));
  if (used.size > legend.length) legend.push({ name: "other", colour: OTHER });
  const look = ({ row, more }: Tile) => {
    const colour = more ? undefined : modules.colours.get(modules.className(row));
    return { fill: colour ? ground(colour) : OTHER, ink: "var(--ink)" };
  };
  return { look, legend };
}

interface Props extends Look {
  tile: Tile;
  mark: number;
  label: string;
  name: string;
  value: string;
  /** Whether other boxes lie in it, below its name. */
  head: boolean;
  picked: boolean;
}

/** A box with its name and, if there is room, its value. */
export function TileMark({ tile, mark, label, name, value, head, picked, fill, ink }: Props) {
  const { width, height } = tile;
  const room = width - 2 * EDGE;
  const text = height < LINE - 2 ? "" : fit(name, room);
  const below = !head && height >= 2 * LINE + 4 && textWidth(value) <= room;
  const beside = height < 2 * LINE + 4 && textWidth(name) + textWidth(value) + LINE <= room;
  const middle = head ? 9 : Math.min(height / 2, LINE + 4);
  return (
    <g transform={`translate(${tile.x} ${tile.y})`}>
      <rect
        data-i={mark}
        tabindex={mark ? -1 : 0}
        role="button"
        aria-label={label}
        class={picked ? "map-tile map-picked" : "map-tile"}
        width={width}
        height={height}
        fill={fill}
      />
      {text && (
        <text
          aria-hidden="true"
          x={EDGE}
          y={below ? middle - LINE / 2 : middle}
          dominant-baseline="central"
          style={{ fill: ink }}
        >
          {text}
        </text>
      )}
      {text && (beside || below) && (
        <text
          aria-hidden="true"
          x={beside ? width - EDGE : EDGE}
          y={beside ? middle : middle + LINE / 2}
          text-anchor={beside ? "end" : "start"}
          dominant-baseline="central"
          style={{ fill: ink }}
        >
          {value}
        </text>
      )}
    </g>
  );
}
