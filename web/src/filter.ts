/** The language of the filter: `conv layer1`, `/regex/`, `type:Linear`, `params>1M`, `-type:ReLU`; all must hold. */

import uFuzzy from "@leeoniya/ufuzzy";
import { largest } from "./columns";
import { format } from "./format";
import type { Column, Table, Unit } from "./payload";

/** The rows that a query finds. */
export interface Found {
  /** 1 for each row that matches; null if no term could be read. */
  mask: Uint8Array | null;
  /** What is wrong with the query, in a line; terms that cannot be read are left out. Empty if all is well. */
  error: string;
  /** What the reader should know about the result, in a line: that only similar names were found, say. */
  note: string;
}

type Test = (row: number) => boolean;

/** Says what is wrong with a term. */
class QueryError extends Error {}

const NAME = String.raw`"[^"]+"|[\p{L}\p{N}_.%-]+`;
const TERM = new RegExp(
  [
    String.raw`(?<not>-?)(?:`,
    String.raw`\/(?<regex>(?:\\.|[^\\\/])+)\/(?=\s|$)`,
    String.raw`|(?<compared>${NAME})\s*(?<sign>[<>]=?|!?=)\s*(?<value>"[^"]*"|[^\s"]*)`,
    String.raw`(?<unit>\s+(?:%|[kKMGTP]?i?B|[kMGTP]|[mµun]?s|[mµk]?[JW])(?=\s|$))?`,
    String.raw`|(?<searched>${NAME}):(?!:)(?:\/(?<inner>(?:\\.|[^\\\/])+)\/(?=\s|$)|(?<text>"[^"]*"|[^\s"]*))`,
    String.raw`|"(?<quoted>[^"]*)"|(?<word>\S+))`,
  ].join(""),
  "gu",
);

/** Names that people use for each other. */
const ALIASES = new Map<string, string[]>(
  Object.entries({
    type: ["class", "kind"],
    class: ["type", "kind"],
    params: ["parameters"],
    parameters: ["params"],
    name: ["path", "module"],
    path: ["name", "module"],
  }),
);

const unquoted = (text: string) => text.replace(/^"(.*)"$/s, "$1");
const simple = (name: string) => name.toLowerCase().replace(/\s+/g, "");

function columnOf(table: Table, written: string): Column {
  const wanted = simple(unquoted(written));
  const names = (of: Column) => [simple(of.key), simple(of.title)];
  for (const name of [wanted, ...(ALIASES.get(wanted) ?? [])]) {
    const found = table.columns.find((of) => names(of).includes(name));
    if (found) return found;
  }
  const found = table.columns.find((of) => names(of).some((name) => name.startsWith(wanted)));
  if (found) return found;
  const choices = table.columns.map((of) => of.title).join(", ");
  throw new QueryError(`no column “${unquoted(written)}”: choose from ${choices}`);
}

const DECIMAL = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
const SI = { k: 1e3, "": 1, m: 1e-3, µ: 1e-6, u: 1e-6, n: 1e-9, M: 1e6 };
const withUnit = (unit: string) =>
  Object.fromEntries(Object.entries(SI).map(([prefix, scale]) => [prefix + unit, scale]));

function bytes(): Record<string, number> {
  const scales: Record<string, number> = { B: 1 };
  Object.entries(DECIMAL).forEach(([prefix, scale], power) => {
    scales[`${prefix}B`] = scale;
    scales[`${prefix}iB`] = scales[prefix] = 1024 ** (power + 1);
  });
  return scales;
}

/** What a number may be followed by, per unit of the column; sizes without `B` are binary, as they are shown. */
const SCALES: Partial<Record<Unit, Record<string, number>>> = {
  seconds: { ...withUnit("s"), min: 60, h: 3600 },
  bytes: bytes(),
  joules: withUnit("J"),
  watts: withUnit("W"),
  share: { "%": 0.01 },
};

/** A number of this column's size, as it may be written. */
function exampleOf(of: Column): string {
  if (of.unit === "bytes") return "1MiB";
  const tenth = Number((largest(of) / 10).toPrecision(1));
  return format(of.unit === "exact" || of.unit === "count" ? Math.ceil(tenth) : tenth, of.unit).replace(/[\s,]/g, "");
}

function scaleOf(suffix: string, unit: Unit): number | undefined {
  if (!suffix) return unit === "share" ? 0.01 : 1;
  const scales: Record<string, number> = SCALES[unit] ?? DECIMAL;
  const names = Object.keys(scales);
  const alike = names.find((one) => one.toLowerCase() === suffix.toLowerCase());
  const name = names.includes(suffix) ? suffix : alike;
  return name === undefined ? undefined : scales[name];
}

function numberIn(text: string, of: Column): number {
  const parts = /^([+-]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)(.*)$/i.exec(text.replace(/\s+/g, ""));
  const scale = scaleOf((parts?.[2] ?? "").replace("μ", "µ"), of.unit);
  if (parts && scale !== undefined) return Number(parts[1]!.replace(/[,_]/g, "")) * scale;
  const given = text ? `“${text}” is not a value of ${of.title}` : "a number is missing";
  throw new QueryError(`${given}: write ${of.key}>${exampleOf(of)}`);
}

function regex(source: string): RegExp {
  try {
    return new RegExp(source, "i");
  } catch {
    throw new QueryError(`/${source}/ is not a valid regular expression`);
  }
}

/** Matches text as it is, whatever its case. */
const literal = (text: string) => new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "i");

/** A test of rows by their words, and whether any word passes. */
type WordTest = { test: Test; any: boolean };

function byHits(of: Column, hits: Uint8Array): WordTest {
  const codes = of.codes ?? [];
  return { test: (row) => hits[codes[row]!] === 1, any: hits.includes(1) };
}

/** Tests rows by their words; each distinct word is looked at once. */
function byWords(of: Column, holds: (word: string) => boolean): WordTest {
  const words = of.words ?? [];
  const hits = new Uint8Array(words.length);
  for (let code = 0; code < words.length; code++) if (holds(words[code]!)) hits[code] = 1;
  return byHits(of, hits);
}

const fuzzy = new uFuzzy({ intraMode: 1 });

/** Tests rows for words that contain this one, but for a letter that is wrong, missing or superfluous. */
function bySimilar(of: Column, word: string): WordTest {
  const hits = new Uint8Array(of.words?.length ?? 0);
  for (const code of fuzzy.filter(of.words ?? [], word) ?? []) hits[code] = 1;
  return byHits(of, hits);
}

/** Tests whether any text of a row passes. */
function anyText(table: Table, testOf: (of: Column) => WordTest): WordTest {
  const tests = table.columns.filter((of) => of.words).map(testOf);
  const useful = tests.filter((one) => one.any).map((one) => one.test);
  return { test: (row) => useful.some((test) => test(row)), any: useful.length > 0 };
}

const COMPARE: Record<string, (a: number, b: number) => boolean> = {
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};

function comparison(of: Column, sign: string, written: string): Test {
  if (of.numbers) {
    const [numbers, wanted, holds] = [of.numbers, numberIn(unquoted(written), of), COMPARE[sign]!];
    return (row) => numbers[row] != null && holds(numbers[row]!, wanted);
  }
  if (sign !== "=" && sign !== "!=") throw new QueryError(`${of.title} is text: write ${of.key}:${written || "text"}`);
  const wanted = unquoted(written).toLowerCase();
  return byWords(of, (word) => (word.toLowerCase() === wanted) === (sign === "=")).test;
}

type Groups = Record<string, string | undefined>;

function testOf(table: Table, groups: Groups, say: (note: string) => void): Test {
  if (groups.compared) {
    return comparison(columnOf(table, groups.compared), groups.sign!, groups.value! + (groups.unit ?? ""));
  }
  if (groups.searched) {
    const of = columnOf(table, groups.searched);
    const given = unquoted(groups.text ?? "");
    if (of.numbers) throw new QueryError(`${of.title} is a number: write ${of.key}>${given || 1}`);
    const pattern = groups.inner ? regex(groups.inner) : literal(given);
    return byWords(of, (word) => pattern.test(word)).test;
  }
  if (groups.word?.startsWith("/")) throw new QueryError(`end the regular expression ${groups.word} with /`);
  const word = groups.word ?? groups.quoted ?? "";
  const pattern = groups.regex ? regex(groups.regex) : literal(word);
  const exact = anyText(table, (of) => byWords(of, (text) => pattern.test(text)));
  if (exact.any || groups.not || !/^[\w.]{4,}$/.test(groups.word ?? "")) return exact.test;
  const close = anyText(table, (of) => bySimilar(of, word));
  if (close.any) say(`nothing contains “${word}”: these are similar`);
  return close.test;
}

/** The rows that a query finds; null if it is empty. */
export function find(table: Table, query: string): Found | null {
  if (!query.trim()) return null;
  const found: Found = { mask: null, error: "", note: "" };
  for (const { groups = {} } of query.matchAll(TERM) as Iterable<{ groups?: Groups }>) {
    if (groups.word === "-") continue; // the start of a term that is being typed
    try {
      const test = testOf(table, groups, (note) => (found.note ||= note));
      const wanted = !groups.not;
      const mask = (found.mask ??= new Uint8Array(table.rows).fill(1));
      for (let row = 0; row < table.rows; row++) if (test(row) !== wanted) mask[row] = 0;
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      found.error ||= error.message;
    }
  }
  return found;
}

/** The word that most rows have. */
function commonWord(of: Column): string {
  const counts = new Map<number, number>();
  for (const code of of.codes ?? []) counts.set(code, (counts.get(code) ?? 0) + 1);
  const [code] = [...counts].reduce((best, one) => (one[1] > best[1] ? one : best), [-1, 0]);
  return of.words?.[code] ?? "";
}

/** A query for this table that shows the language. */
export function example(table: Table): string {
  const [, ...others] = table.columns.filter((of) => !of.hidden);
  const text = others.find((of) => /^[\w.]{2,16}$/.test(commonWord(of)));
  const number = others.find((of) => of.numbers && largest(of));
  const name = (of: Column) => (/^[\w.]+$/.test(of.title) ? of.title : of.key);
  const words = text ? `${name(text)}:${commonWord(text)}` : "";
  const both = [words, number && `${name(number)}>${exampleOf(number)}`].filter(Boolean).join("  ");
  return find(table, both)?.mask?.includes(1) ? both : words;
}
