"""The width of text in terminal cells: CJK characters and emoji take two. Rich is imported only for such text."""

from __future__ import annotations


def cell_len(text: str) -> int:
    """The number of cells that `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def set_cell_size(text: str, size: int) -> str:
    """The beginning of `text` in exactly `size` cells, padded with spaces."""
    if text.isascii():
        return text[:size].ljust(size)
    from rich.cells import set_cell_size as fitted

    return fitted(text, size)
