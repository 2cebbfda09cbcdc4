/** Pixels of small images. */

/** Red, green, blue and alpha of grey pixels given as base64. */
export function greyPixels(base64: string, count: number): Uint8ClampedArray<ArrayBuffer> {
  const grey = atob(base64);
  const pixels = new Uint8ClampedArray(4 * count).fill(255);
  for (let i = 0; i < count; i++) pixels.fill(grey.charCodeAt(i), 4 * i, 4 * i + 3);
  return pixels;
}
