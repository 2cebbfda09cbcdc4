"""Frames of notebooks, opened for tests."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "col"}
OPTIONAL_END = {"html", "body"}


class Tags(HTMLParser):
    """Checks that tags are properly nested, and collects tags with their attributes, and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def parsed(html: str) -> Tags:
    """The tags and texts of `html`, whose elements are all closed."""
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return tags


def framed(html: str) -> str:
    """The page inside `html`, which is one frame and nothing else."""
    outer = parsed(html)
    attributes = dict(outer.attributes)
    assert outer.seen == ["iframe"]
    assert set(attributes) == {"sandbox", "srcdoc", "title", "style"}
    assert "".join(outer.texts) == attributes["title"]
    return attributes["srcdoc"]
