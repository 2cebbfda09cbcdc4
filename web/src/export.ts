/** Saves what the page shows as files: charts as SVG or PNG, tables as CSV. */

/** What decides how shapes and texts look, with what they have if they are not told; written into the file, because the
 * style sheet of the page is not there. */
const SHAPES: Record<string, string> = {
  fill: "rgb(0, 0, 0)",
  "fill-opacity": "1",
  stroke: "none",
  "stroke-width": "1px",
  "stroke-dasharray": "none",
  opacity: "1",
  "paint-order": "normal",
};
const TEXTS: Record<string, string> = {
  ...SHAPES,
  "font-family": "",
  "font-size": "",
  "font-weight": "400",
  "text-anchor": "start",
  "dominant-baseline": "auto",
};
/** What only matters on the page. */
const SCREEN = ["class", "style", "tabindex", "data-i", "role", "aria-hidden"];

/** Around a saved chart, in pixels. */
const MARGIN = 16;

/** A computed colour as `rgb()`, which every program reads: browsers write mixed colours as `color(srgb …)`. */
export function plainColour(value: string): string {
  const parts = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/.exec(value);
  if (!parts) return value;
  const [red, green, blue] = parts.slice(1, 4).map((part) => Math.round(255 * Number(part)));
  return parts[4] ? `rgba(${red}, ${green}, ${blue}, ${parts[4]})` : `rgb(${red}, ${green}, ${blue})`;
}

/** The name of a file, without what a file system could refuse. */
export function fileName(name: string, extension: string): string {
  const safe = name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "");
  return `${safe.slice(0, 80) || "assay"}.${extension}`;
}

/** A field of a CSV file; text that a spreadsheet would run as a formula is marked as text. */
export function csvField(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The colour behind an element: its own, or of what it is in. */
function backgroundOf(element: Element): string {
  const own = plainColour(getComputedStyle(element).backgroundColor);
  return /^rgba\(.*, 0\)$/.test(own) && element.parentElement ? backgroundOf(element.parentElement) : own;
}

/** The size of the saved picture. */
function sizeOf(svg: SVGSVGElement): { width: number; height: number } {
  return { width: svg.width.baseVal.value + 2 * MARGIN, height: svg.height.baseVal.value + 2 * MARGIN };
}

/** Copies a chart with its looks written into each mark, on a background of its own. */
function standalone(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((mark, index) => {
    const looks = mark instanceof SVGTextElement ? TEXTS : mark instanceof SVGGeometryElement ? SHAPES : {};
    const style = getComputedStyle(from[index]!);
    for (const [look, plain] of Object.entries(looks)) {
      const value = plainColour(style.getPropertyValue(look));
      if (value === plain) mark.removeAttribute(look);
      else mark.setAttribute(look, value);
    }
    for (const name of SCREEN) mark.removeAttribute(name);
  });
  copy.querySelectorAll("[data-screen]").forEach((mark) => mark.remove());
  copy.querySelectorAll("[data-sticky]").forEach((mark) => mark.removeAttribute("transform"));
  const { width, height } = sizeOf(svg);
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${width} ${height}`);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "path");
  ground.setAttribute("d", `M${-MARGIN} ${-MARGIN}h${width}v${height}h${-width}z`);
  ground.setAttribute("fill", backgroundOf(svg));
  copy.prepend(ground);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const name of SCREEN) copy.removeAttribute(name);
  copy.setAttribute("role", "img");
  return copy;
}

function svgBlob(svg: SVGSVGElement): Blob {
  return new Blob([new XMLSerializer().serializeToString(standalone(svg))], { type: "image/svg+xml" });
}

/** Saves a chart as `name.svg`. */
export function downloadSvg(svg: SVGSVGElement, name: string): void {
  save(svgBlob(svg), fileName(name, "svg"));
}

/** Saves a chart as `name.png`, with `scale` pixels for each of the page. */
export async function downloadPng(svg: SVGSVGElement, name: string, scale = 2): Promise<void> {
  const { width, height } = sizeOf(svg);
  const address = URL.createObjectURL(svgBlob(svg));
  try {
    const image = new Image(width * scale, height * scale);
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    if (blob) save(blob, fileName(name, "png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Saves rows as `name.csv`, the first row being the headings. */
export function downloadCsv(rows: (string | number | null)[][], name: string): void {
  const text = rows.map((row) => row.map(csvField).join(",")).join("\r\n");
  save(new Blob([text, "\r\n"], { type: "text/csv;charset=utf-8" }), fileName(name, "csv"));
}
