/** An amount over the ops of one pass, such as live memory: its peak, the modules below it, the phases behind it. */

import { XAxis, YAxis, axisWidth } from "../charts/axes";
import { ChartFrame, useBox } from "../charts/frame";
import { extent, linear, roundUp, type Scale } from "../charts/scale";
import { stageAt, stepPath } from "../charts/series";
import { fit, textWidth } from "../charts/text";
import { type Tip } from "../charts/tooltip";
import { format } from "../format";
import type { Stage } from "../payload";
import type { BlockProps } from ".";
import "./area.css";

const TOP = 40;
const PLOT = 220;
const TICKS = 6;

/** The area of a block. */
export function AreaBlock({ block }: BlockProps<"area">) {
  const box = useBox();
  const { values, unit, stages, phases } = block;
  const most = extent(values)?.[1] ?? 0;
  const y = linear([0, roundUp(most, TICKS, unit)], [TOP + PLOT, TOP], TICKS, unit);
  const write = (value: number) => format(value, unit);
  const left = axisWidth(y, write);
  const x = linear([0, values.length], [left, Math.max(box.width - 1, left + 1)]);
  const base = TOP + PLOT;
  const peak = values[block.peak]!;
  const peakText = `peak ${format(peak, unit)}`;
  const before = x(block.peak) + textWidth(peakText) + 8 > box.width;

  const tip = (i: number): Tip => {
    const rows: [string, string][] = [[block.title ?? "value", format(values[i]!, unit)]];
    const phase = stageAt(phases, i);
    if (phase) rows.push(["phase", phase]);
    return {
      title: stageAt(stages, i) ?? `${block.x} ${i + 1}`,
      text: `${block.x} ${i + 1} of ${values.length}`,
      rows,
    };
  };
  return (
    <ChartFrame
      box={box}
      height={base + 40}
      name={block.title ?? "area"}
      label={`${block.caption ?? block.title ?? ""} ${peakText} at ${stageAt(stages, block.peak) ?? `${block.x} ${block.peak + 1}`}`}
      tip={tip}
      count={values.length}
      at={(at) => (at < left ? null : Math.min(values.length - 1, Math.max(0, Math.floor(x.invert(at)))))}
      cursor={(i) => ({
        x: x(i + 0.5),
        y: y(values[i]!),
        draw: <Reading x={x(i + 0.5)} y={y(values[i]!)} base={base} />,
      })}
    >
      {phases.map((phase, i) => (
        <g key={phase.name}>
          <rect
            class={i % 2 ? "area-phase-odd" : "area-phase"}
            x={x(phase.first)}
            y={TOP - 16}
            width={x(phase.last + 1) - x(phase.first)}
            height={PLOT + 16}
          />
          <text class="dim" x={x(phase.first) + 6} y={TOP - 22}>
            {fit(phase.name, x(phase.last + 1) - x(phase.first) - 8)}
          </text>
        </g>
      ))}
      <YAxis scale={y} from={left} to={box.width} text={write} />
      <path class="area-fill" d={stepPath(values, x, y)} />
      <line class="area-peak" x1={x(block.peak + 0.5)} x2={x(block.peak + 0.5)} y1={y(peak)} y2={TOP - 8} />
      <circle class="area-dot" cx={x(block.peak + 0.5)} cy={y(peak)} r={4} />
      <text
        class="area-peak-text"
        x={x(block.peak + 0.5) + (before ? -6 : 6)}
        y={TOP - 4}
        text-anchor={before ? "end" : "start"}
      >
        {peakText}
      </text>
      {stages.length > 0 ? (
        <Stages stages={stages} x={x} y={base} />
      ) : (
        <XAxis
          scale={x}
          from={base}
          to={base}
          text={(tick) => format(tick, "exact")}
          title={block.x}
          right={box.width}
        />
      )}
    </ChartFrame>
  );
}

function Stages({ stages, x, y }: { stages: Stage[]; x: Scale; y: number }) {
  return (
    <g>
      {stages.map((stage, i) => {
        const from = x(stage.first);
        const wide = x(stage.last + 1) - from;
        const name = textWidth(stage.name) + 4 <= wide ? stage.name : "";
        return (
          <g key={i}>
            <rect
              class={i % 2 ? "area-stage-odd" : "area-stage"}
              x={from}
              y={y + 4}
              width={Math.max(wide - 1, 0.5)}
              height={6}
            />
            {name && (
              <text class="dim" x={from + wide / 2} y={y + 26} text-anchor="middle">
                {name}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

function Reading({ x, y, base }: { x: number; y: number; base: number }) {
  return (
    <>
      <line class="cursor" x1={x} x2={x} y1={TOP - 16} y2={base} />
      <circle class="area-dot" cx={x} cy={y} r={4} />
    </>
  );
}
