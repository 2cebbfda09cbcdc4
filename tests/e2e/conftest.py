"""A browser, and pages in it that may not report an error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.document.document import Document
from e2e import subjects

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--force-color-profile=srgb", "--hide-scrollbars"),
    *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
]

DRAWN = """async () => {
    const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    do await frames(); while (document.body.hasAttribute("data-decoding"));
    await frames();
}"""
"""Returns when all data that the view needs is decoded and drawn."""
Visit = Callable[..., Any]


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Headless Chromium. It ends with these tests: other tests on the same worker run event loops of their own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: install the dev extra")
    if CHROMIUM is None:
        pytest.skip("chromium is missing: run `make browser`, or install it")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Document | bytes]], Path]:
    """Writes the page that a function makes, or that of its document, once per function."""
    folder, files = tmp_path_factory.mktemp("pages"), dict[str, Path]()

    def write(make: Callable[[], Document | bytes]) -> Path:
        if make.__name__ not in files:
            made = make()
            files[make.__name__] = folder / f"{make.__name__}.html"
            files[make.__name__].write_bytes(made if isinstance(made, bytes) else subjects.page_of(made))
        return files[make.__name__]

    return write


@pytest.fixture
def visit(browser: Any, written: Callable[..., Path]) -> Iterator[Visit]:
    """Opens a page: one that a function makes, a file or an address.

    Whatever a page reports as an error, or fails to assert, fails the test.
    """
    contexts: list[Any] = []
    errors: list[str] = []

    def open_page(
        subject: Any = subjects.rich, address: str = "", *, width: int = 1280, theme: str = "light", **options: Any
    ) -> Any:
        place = subject if isinstance(subject, str) else (written(subject) if callable(subject) else subject).as_uri()
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type in ("error", "assert") else None)
        page.goto(f"{place}#{address}" if address else place)
        page.locator("main h2").first.wait_for(state="attached")
        page.evaluate(DRAWN)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
