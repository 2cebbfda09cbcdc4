/** Numbers as text, with the same digits as `assay.units` writes: `web/tests/units.json` holds both to that. */

import type { Unit } from "./payload";

/** What stands for a value that is not known. */
export const UNKNOWN = "–";

const DECIMAL = ["", "k", "M", "G", "T", "P", "E", "Z"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const TIME: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const SMALL: [number, string][] = [
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
  [1e-3, "m"],
  [1e-6, "µ"],
  [1e-9, "n"],
  [1e-12, "p"],
];
/** From this share of the next unit on, three digits round up to it: 999.96 ms is written 1 s. */
const NEXT = 0.9995;

/** From here on, a number without a prefix is written with an exponent: 4.36e+30. */
const LONGEST = 999_999.5;

/** Whether digits that are cut off are exactly one half and the digit before them is even: Python then rounds down. */
const halfBelowEven = (kept: string, rest: string) => /^50*$/.test(rest) && "02468".includes(kept.at(-1)!);

/** `value` with `digits` decimals, as Python's `.1f`. */
function fixed(value: number, digits: number): string {
  const size = Math.abs(value);
  const exact = size.toFixed(digits + 20);
  const kept = exact.slice(0, -20).replace(/\.$/, "");
  return (value < 0 ? "-" : "") + (halfBelowEven(kept, exact.slice(-20)) ? kept : size.toFixed(digits));
}

/** `value` with at most `digits` significant digits, as Python's `.3g`. */
function general(value: number, digits: number): string {
  const size = Math.abs(value);
  const [exact, power] = size.toExponential(digits + 20).split("e") as [string, string];
  const kept = exact.slice(0, digits + 1);
  const rounded = halfBelowEven(kept, exact.slice(digits + 1)) ? `${kept}e${power}` : size.toExponential(digits - 1);
  const [head, tail] = rounded.split("e") as [string, string];
  const exponent = Number(tail);
  const text =
    exponent < -4 || exponent >= digits
      ? `${Number(head)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`
      : String(Number(rounded));
  return (value < 0 ? "-" : "") + text;
}

/** `value` rounded to an integer, with separators of thousands. */
function whole(value: number): string {
  const text = Math.abs(value) < 1e21 ? fixed(value, 0) : String(BigInt(value));
  return text.replace(/\B(?=(\d{3})+$)/g, ",");
}

function three(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 100 && size < LONGEST ? whole(value) : general(value, 3);
}

function scaled(value: number, step: number, names: string[]): string {
  let power = 0;
  for (; power < names.length - 1 && Math.abs(value) >= step * NEXT; power++) value /= step;
  const text = power === 0 && Number.isInteger(value) ? String(value) : three(value);
  return `${text} ${names[power]}`.trimEnd();
}

function seconds(value: number): string {
  for (const [scale, unit] of TIME) if (Math.abs(value) >= scale * NEXT) return `${three(value / scale)} ${unit}`;
  return value === 0 ? "0 s" : `${general(value / 1e-9, 2)} ns`;
}

function prefixed(value: number, unit: string): string {
  for (const [scale, prefix] of SMALL) {
    if (Math.abs(value) >= scale * NEXT) return `${three(value / scale)} ${prefix}${unit}`;
  }
  return value === 0 ? `0 ${unit}` : `${general(value, 2)} ${unit}`;
}

function plain(value: number): string {
  const size = Math.abs(value);
  if (size >= 999.95 && size < 1e6) return whole(value);
  return value === 0 ? "0" : general(value, 4);
}

const WRITERS: Record<Unit, (value: number) => string> = {
  seconds,
  bytes: (value) => scaled(value, 1024, BINARY),
  joules: (value) => prefixed(value, "J"),
  watts: (value) => prefixed(value, "W"),
  count: (value) => scaled(value, 1000, DECIMAL),
  exact: (value) => (Number.isInteger(value) ? whole(value) : String(value)),
  share: (value) => `${fixed(100 * value, 1)} %`,
  ratio: three,
  number: plain,
  text: String,
};

/** A number as text in its unit: `format(0.00125, "seconds") === "1.25 ms"`; a dash if it is not known. */
export function format(value: number | null | undefined, unit: Unit): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (!Number.isFinite(value)) return value < 0 ? "-∞" : "∞";
  return WRITERS[unit](value);
}
