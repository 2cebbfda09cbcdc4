/** The values of a tensor: a histogram above its quantiles on the same axis. */

import { XAxis } from "../charts/axes";
import { ChartFrame, useBox } from "../charts/frame";
import { linear, type Scale } from "../charts/scale";
import { tipText, type Tip } from "../charts/tooltip";
import { format } from "../format";
import "./histogram.css";

const PLOT = 96;
const BOX = 20;

interface Props {
  name: string;
  low: number;
  high: number;
  /** Relative to the largest, which is 255. */
  counts: number[];
  probabilities: number[];
  quantiles: (number | null)[];
}

/** The quantile with this probability. */
function quantile({ probabilities, quantiles }: Props, probability: number): number | null {
  return quantiles[probabilities.indexOf(probability)] ?? null;
}

/** A histogram, quantiles as a box with whiskers, and their numbers. */
export function Histogram(props: Props) {
  const { name, low, high, counts, probabilities, quantiles } = props;
  const box = useBox();
  const x = linear([low, high], [8, Math.max(9, box.width - 8)], 4);
  const step = (high - low) / counts.length;
  const write = (value: number) => format(value, "number");
  const tip = (i: number): Tip => ({
    title: `${write(low + i * step)} to ${write(low + (i + 1) * step)}`,
    rows: [["of the fullest bin", format(counts[i]! / 255, "share")]],
  });
  const base = PLOT + 4;
  return (
    <>
      <ChartFrame
        box={box}
        height={base + BOX + 24}
        name={name}
        label={`Histogram from ${write(low)} to ${write(high)}`}
        tip={tip}
      >
        {counts.map((count, i) => {
          const left = x(low + i * step);
          const tall = (PLOT * count) / 255;
          return (
            <g key={i} data-i={i} tabindex={i ? -1 : 0} role="img" aria-label={tipText(tip(i))} class="bin">
              <rect class="bin-ground" x={left} y={0} width={x(low + (i + 1) * step) - left} height={base} />
              <rect
                class="bin-bar"
                x={left + 0.5}
                y={base - tall}
                width={Math.max(x(low + (i + 1) * step) - left - 1, 0.5)}
                height={tall}
              />
            </g>
          );
        })}
        <line class="rule" x1={0} x2={box.width} y1={base} y2={base} />
        <Whiskers {...props} x={x} y={base + BOX / 2 + 1} />
        <XAxis scale={x} from={base + BOX + 2} to={base + BOX + 2} text={write} right={box.width} />
      </ChartFrame>
      <dl class="quantiles">
        {probabilities.map((probability, i) => (
          <div key={probability}>
            <dt>{LABELS[probability] ?? `${format(100 * probability, "number")} %`}</dt>
            <dd>{format(quantiles[i], "number")}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

const LABELS: Record<number, string> = { 0: "min", 0.5: "median", 1: "max" };

function Whiskers(props: Props & { x: Scale; y: number }) {
  const { x, y } = props;
  const [near, far] = [0.25, 0.01].map((probability) => [
    quantile(props, probability),
    quantile(props, 1 - probability),
  ]);
  const median = quantile(props, 0.5);
  return (
    <g class="whiskers">
      {far![0] != null && far![1] != null && <path d={`M${x(far![0])} ${y - 4}v8m0 -4H${x(far![1])}m0 -4v8`} />}
      {near![0] != null && near![1] != null && (
        <rect x={x(near![0])} y={y - 6} width={Math.max(x(near![1]) - x(near![0]), 1)} height={12} />
      )}
      {median !== null && <path class="whisker-median" d={`M${x(median)} ${y - 6}v12`} />}
    </g>
  );
}
