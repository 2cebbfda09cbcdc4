"""Screenshots that are small to store, and compared so that another font does not matter but a blank part does."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

CELL = 40
"""Pixels of a page in each direction over which colours are averaged: more than a line of text."""
TOLERANCE = 8
"""How far, of 255, an average may be from those around its place: a line that moves or grows changes it by less."""
_SCALE = 0.4
"""Stored pictures are smaller than the screenshot, and still show a reviewer what changed."""

_DRAWN = """const drawn = async (data, scale) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(Math.round(image.width * scale), Math.round(image.height * scale));
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas;
};
const text = (bytes) => btoa(Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join(""));"""
_SMALL = f"""async ([data, scale]) => {{
    {_DRAWN}
    const canvas = await drawn(data, scale);
    return text(await (await canvas.convertToBlob()).arrayBuffer());
}}"""
_PIXELS = f"""async (data) => {{
    {_DRAWN}
    const canvas = await drawn(data, 1);
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return [canvas.height, text(pixels.data.buffer)];
}}"""


def small(page: Any, png: bytes) -> bytes:
    """A screenshot as it is stored."""
    return base64.b64decode(page.evaluate(_SMALL, [base64.b64encode(png).decode(), _SCALE]))


def difference(page: Any, one: bytes, other: bytes) -> float:
    """The share of one stored screenshot that does not look like the other."""
    first, second = _averages(page, one), _averages(page, other)
    assert first.shape == second.shape, "the pictures have different sizes"
    return float((_is_new(first, second) | _is_new(second, first)).mean())


def _averages(page: Any, png: bytes) -> np.ndarray:
    """The average colour of each cell."""
    height, data = page.evaluate(_PIXELS, base64.b64encode(png).decode())
    pixels = np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, -1, 4)[..., :3].astype(float)
    size = round(CELL * _SCALE)
    rows, columns = (length // size for length in pixels.shape[:2])
    return pixels[: rows * size, : columns * size].reshape(rows, size, columns, size, 3).mean((1, 3))


def _is_new(seen: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which cells have a colour that is not near theirs in the other picture."""
    rows, columns = known.shape[:2]
    padded = np.pad(known, ((1, 1), (1, 1), (0, 0)), mode="edge")
    near = np.stack([padded[y : y + rows, x : x + columns] for y in range(3) for x in range(3)])
    return ((seen < near.min(0) - TOLERANCE) | (seen > near.max(0) + TOLERANCE)).any(-1)
