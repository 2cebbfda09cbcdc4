/** The data of a page, as `assay.views.html` writes it. Numbers are raw; `format.ts` writes them by their unit. */

/** How the numbers of a column or figure are written: as in `assay.units`. */
export type Unit =
  | "seconds"
  | "bytes"
  | "joules"
  | "watts"
  | "count"
  | "exact"
  | "share"
  | "ratio"
  | "number"
  | "text";

/** How a figure was obtained; empty if that does not apply, as for names. */
export type Method = "measured" | "counted" | "modelled" | "unknown" | "";

/** One column of a table: numbers (null is unknown), or text as indices into distinct words (-1 is unknown). */
export interface Column {
  key: string;
  title: string;
  unit: Unit;
  /** Present for numbers. */
  numbers?: (number | null)[];
  /** How many characters each word starts with that the word before it has too, and that `words` leaves out. */
  shared?: number[];
  /** Present for text. With `numbers`, the words are shown and the numbers are sorted by. */
  words?: string[];
  codes?: number[];
  method?: Method;
  /** How the numbers were obtained, in one sentence, shown on hover. */
  how?: string;
  /** Whether the number is drawn as a bar beside its text, relative to the largest of the column. */
  bar?: boolean;
  /** Whether its words are aligned like numbers. */
  right?: boolean;
  /** Whether the column is hidden until the reader chooses it. */
  hidden?: boolean;
  /** The text is a module path: a click shows it in the modules view. `op`: an index into the ops table. */
  link?: "module" | "op" | "tensor" | "rule";
  /** The text is one of a few states, drawn with a symbol and a colour. */
  state?: "severity" | "change" | "bound" | "verdict";
}

export interface Table {
  rows: number;
  columns: Column[];
  /** Depth of each row of a tree in preorder; absent for a flat table. */
  depth?: number[];
  /** For trees: the number of equal siblings that the row stands for; 1 for a module itself. Its children are these
   * siblings. A row of a run is closed at first. */
  run?: number[];
  /** The places of the rows if runs are not shown; absent if they are in that order. */
  order?: number[];
  /** Rows of totals below the table, as text per column. */
  footer?: string[][];
}

/** Where a table is: in the page's own data, or in a section that is decoded when it is first shown. */
export type TableRef = Table | { section: string };

export interface Figure {
  /** `Time`, `Memory`, `Limit`. */
  label: string;
  /** The formatted value: `37 ms`; `–` if it is unknown. */
  value: string;
  /** `35.2–39.7 ms`, the range of the value; may be empty. */
  range: string;
  /** `per pass`. */
  text: string;
  method: Method;
  how: string;
  /** The second thing to know: `68.5 % in Convolution`. */
  detail: string;
  /** The parts of the value, largest first, as shares of 1; may be empty. The last one may be "other". */
  split: { name: string; share: number }[];
}

/** How bad something is, most severe first. */
export type Severity = "error" | "warning" | "advice" | "note";

export interface FindingItem {
  code: string;
  severity: Severity;
  title: string;
  advice: string;
  /** `−19.4 ms, 52.5 %`; empty if it does not save anything. */
  gain: string;
  /** The gain as a share of 1; null if unknown. */
  gain_share: number | null;
  /** `predicted`, `counted`, `upper bound`, or if it was tried `1.43× measured`. */
  confidence: string;
  /** Whether trying it on a copy of the model made it faster. */
  proven: boolean;
  /** The result of trying it, in one line; empty if it was not tried. */
  verified: string;
  modules: string[];
  /** Modules that are not listed, because there are many. */
  more_modules: number;
  tensors: string[];
  more_tensors: number;
  evidence: { name: string; value: string; method: Method; how: string }[];
  /** Before and after of each trial of this finding's changes. */
  trials: TrialItem[];
}

export interface TrialItem {
  name: string;
  verdict: string;
  detail: string;
  /** `1.43× (1.40–1.46)`. */
  speedup: string;
  /** Each row: what (`time`, `peak memory`, `energy`), formatted before and after, and the raw numbers. */
  rows: { what: string; before: string; after: string; from: number | null; to: number | null }[];
  outputs: string;
}

export interface Brief {
  /** What it is, from the name on. */
  identity: string[];
  figures: Figure[];
  actions: FindingItem[];
  more_actions: number;
  next_step: string;
  tries: boolean;
  problems: FindingItem[];
  more_problems: number;
  /** What was examined without finding a problem: `weights or outputs`. */
  clean: string;
  remarks: string[];
  unknown: { what: string; why: string }[];
  partial: boolean;
}

/** What a view consists of, in reading order. Every block may have a `title` and a `caption`, the conclusion in a line. */
export type Block = { title?: string; caption?: string } & (
  | { kind: "overview" }
  | { kind: "facts"; rows: { name: string; value: string; method?: Method; how?: string }[] }
  | { kind: "notes"; lines: string[]; severity?: Severity }
  | { kind: "table"; id: string; table: TableRef; /** Rows shown before a scroll bar. */ height?: number }
  | { kind: "map"; table: TableRef; metrics: string[]; /** A small picture on the overview. */ small?: boolean }
  | { kind: "graph"; section: string }
  | {
      kind: "roofline";
      /** The view to which points lead. */
      of: "ops" | "modules";
      table: TableRef;
      peaks: { name: string; value: number }[];
      bandwidth: number;
      machine: string;
    }
  | { kind: "bars"; unit: Unit; method?: Method; how?: string; bars: Bar[] }
  | { kind: "area"; unit: Unit; values: number[]; peak: number; stages: Stage[]; phases: Stage[]; x: string }
  | { kind: "spans"; section: string }
  | { kind: "lines"; x: Axis; series: Line[]; unit: Unit; log?: boolean }
  | { kind: "heat"; table: TableRef; /** Keys of the columns to draw. */ statistics: string[] }
  | { kind: "tensors"; table: TableRef; /** The section with `TensorDetails`. */ details: string }
  | { kind: "images"; images: ActivationMap[] }
  | { kind: "findings"; findings: FindingItem[]; /** `62 rules checked, 19 skipped`. */ summary: string }
);

export interface Bar {
  name: string;
  value: number;
  /** Parts of the bar with their names, for a stacked one; they add up to `value`. */
  parts?: { name: string; value: number }[];
  low?: number | null;
  high?: number | null;
  note?: string;
  link?: string;
}

/** A range of the x axis with a name: a module, or a phase of the pass. */
export interface Stage {
  name: string;
  first: number;
  last: number;
}

export interface Axis {
  title: string;
  unit: Unit;
  values: number[];
}

export interface Line {
  name: string;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  method?: Method;
}

/** One pass on the time axis: nested calls and the ops in them, in preorder. */
export interface Spans {
  start_s: number[];
  duration_s: number[];
  depth: number[];
  words: string[];
  names: number[];
  /** The module path of each span, as an index into words. */
  paths: number[];
  /** Whether it is an op. */
  op: number[];
  how: string;
}

/** What is too large for the table of tensors; arrays are parallel to `rows`. */
export interface TensorDetails {
  /** The rows of the table of tensors that have details. */
  rows: number[];
  /** Per tensor, the histogram: lowest and highest value, and counts per bin relative to the largest (0 to 255). */
  low: number[];
  high: number[];
  counts: number[][];
  /** The probabilities of the quantiles, and per tensor the quantiles. */
  probabilities: number[];
  quantiles: number[][];
  /** Names such as `int8 per channel`, and per tensor the signal-to-noise ratio in dB; null if unknown, "exact" if nothing is lost, "overflows" if values become infinite. */
  formats: string[];
  sqnr_db: (number | "exact" | "overflows" | null)[][];
  /** Per tensor, the pruning curve as pairs of the share set to zero and the share of the energy kept. */
  pruning: [number, number][][];
}

/** Outputs of a convolution as small grey images, 0 to 255, row by row, base64. */
export interface ActivationMap {
  module: string;
  class_name: string;
  shape: string;
  width: number;
  height: number;
  /** One string per channel shown. */
  channels: string[];
  /** The numbers of these channels. */
  numbers: number[];
}

/** The data flow of every module that has children or several ops; levels that are alike are given once. */
export interface Graph {
  /** The root's first. */
  levels: Level[];
  /** False if it is not known what each op read; then there are no flows. */
  recorded?: boolean;
}

export interface Level {
  /** The modules that have this level; the root's path is empty. */
  paths: string[];
  class_name: string;
  /** Inputs first, then in the order in which they ran, the output last. */
  nodes: GraphNode[];
  flows: Flow[];
  /** How often each of the modules was called, if more than once; the first call is shown. */
  calls?: number;
  /** Number of views that are passed through. */
  views?: number;
  /** Names of modules that ran no op. */
  idle?: string[];
  /** Number of nodes that are not given, because there are too many. */
  more?: number;
  time_s?: NodeFigures;
  flops?: NodeFigures;
}

/** A value per node: one row per path, or a single one if all are equal or it is their mean. */
export interface NodeFigures {
  rows: (number | null)[][];
  mean?: boolean;
}

export interface GraphNode {
  /** `tensor` is a parameter, buffer or constant that an op of the module itself reads. */
  kind: "module" | "op" | "input" | "output" | "tensor";
  name: string;
  /** The class of a module, or the role of a tensor. */
  detail?: string;
  /** The shape of its result: `1x64x56x56`, `2–7x64` if it varies. */
  shape?: string;
  /** The path of a module, the first of a run: from the level's path on if it starts with a dot. */
  path?: string;
  /** Number of equal siblings, calls, ops or tensors that the node stands for. */
  run?: number;
}

/** A tensor, or several alike, from one node to others. A target that is not after the source reads it in the next
 * turn of a run. */
export interface Flow {
  source: number;
  targets: number[];
  shape: string;
  dtype: string;
  /** Of all tensors together. */
  bytes: number | null;
  tensors?: number;
}

export interface View {
  id: string;
  title: string;
  blocks: Block[];
  /** If there are no blocks: what is missing and the command that fills the view. */
  empty?: string;
  /** A number beside the title: of findings, say. */
  badge?: string;
}

export interface Page {
  version: number;
  /** The name of the model. */
  title: string;
  /** When and where it was made: `measured 2026-11-18 on AMD EPYC, torch 2.13.0`. */
  subtitle: string;
  /** What a figure that covers only part of the pass is marked with; empty if all is complete. */
  partial: string;
  brief: Brief | null;
  views: View[];
  assay: string;
}
