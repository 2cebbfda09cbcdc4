"""Text in ASCII, for terminals and files that cannot hold anything else."""

from __future__ import annotations

_ASCII = str.maketrans(
    {
        **dict.fromkeys("─━═–−‒", "-"),
        **dict.fromkeys("│├┤┃", "|"),
        **dict.fromkeys("└┘╰╯", "`"),
        **dict.fromkeys("┌┐╭╮┬┴┼", "+"),
        **dict.fromkeys("█▉▊▋▌", "#"),
        **dict.fromkeys("▍▎▏", "."),
        **dict(zip("▁▂▃▄▅▆▇", "._-=+*#", strict=True)),
        **dict.fromkeys("“”", '"'),
        **dict.fromkeys("‘’", "'"),
        "—": "--",
        "…": "...",
        "×": "x",
        "·": "|",
        "•": "*",
        "÷": "/",
        "±": "+/-",
        "≥": ">=",
        "≤": "<=",
        "≈": "~",
        "→": "->",
        "←": "<-",
        "Δ": "d",
        "σ": "std",
        "∞": "inf",
        "√": "sqrt",
        "²": "^2",
        "°": "deg",
        "µ": "u",
        "μ": "u",
        "⚠": "!",
        "✓": "ok",
        "✗": "x",
        "\xa0": " ",
        "\u202f": " ",
    }
)


def plain(text: str) -> str:
    """`text` in ASCII: signs as their nearest spelling, other characters as escapes such as `\\u4e2d`."""
    if text.isascii():
        return text
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()
