/** Text in charts: SVG does not wrap or cut text, so its width is measured before it is drawn. */

/** The size of text in charts, in pixels: `--small`. */
export const SIZE = 12;

const WIDTHS = new Map<string, number>();
let context: CanvasRenderingContext2D | null | undefined;

/** The width of a text in pixels. */
export function textWidth(text: string): number {
  let width = WIDTHS.get(text);
  if (width === undefined) {
    if (context === undefined && typeof document !== "undefined") {
      context = document.createElement("canvas").getContext("2d");
      if (context) context.font = `${SIZE}px ${getComputedStyle(document.body).fontFamily}`;
    }
    width = context ? context.measureText(text).width : text.length * SIZE * 0.56;
    if (WIDTHS.size > 20_000) WIDTHS.clear();
    WIDTHS.set(text, width);
  }
  return width;
}

/** The text, or its start with an ellipsis, that fits a width; empty if not even two letters do. */
export function fit(text: string, width: number): string {
  if (width < 2 * SIZE) return textWidth(text) <= width ? text : "";
  if (text.length * SIZE * 0.2 < width && textWidth(text) <= width) return text;
  let low = 0;
  let high = Math.min(text.length, Math.ceil(width / 2));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${text.slice(0, middle)}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : `${text.slice(0, low)}…`;
}

/** The text, or its end after an ellipsis: of a module path, the end tells more than the start. */
export function fitEnd(text: string, width: number): string {
  const reverse = (one: string) => [...one].reverse().join("");
  return reverse(fit(reverse(text), width));
}
