"""Make the pictures of the README, in docs/pictures: the report and the explorer of the ResNet-50 in examples/.

    .venv/bin/python tools/pictures.py [DOCUMENT]

Without DOCUMENT, the model is measured and its suggestions are tried, which takes minutes on a quiet machine; the
document is saved as out/pictures.assay.json. Needs Chromium (`make browser`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace
from playwright.sync_api import sync_playwright

import assay
from assay.api.explore.live import live_subject
from assay.document.document import Document
from assay.findings.verified import verified
from assay.sources.open import open_source
from assay.views.tui.app import Explorer, ExplorerOptions

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SAVED = ROOT / "out" / "pictures.assay.json"
MODEL = (str(ROOT / "examples/resnet.py::load_model"), str(ROOT / "examples/resnet.py::get_inputs"))
PAGE = {"width": 1280, "height": 924}
TERMINAL = (164, 34)
KEYS = (*("j",) * 6, "c")
"""What is pressed before the picture of the explorer: go to the first block, and show its code."""
MOST_BYTES = 250_000


def measured() -> Document:
    """The document of the model, with what trying its suggestions did."""
    found = assay.analyze(*MODEL, depth="profile")
    tried = assay.check(*MODEL, measure=False, attempt=True)
    document = replace(found.document, findings=verified(found.document.findings, tried.trials), trials=tried.trials)
    SAVED.parent.mkdir(exist_ok=True)
    assay.save(document, SAVED)
    return document


def picture_of_report(document: Document) -> bytes:
    """The first view of the report, as PNG."""
    flags = ["--disable-gpu", "--force-color-profile=srgb", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = assay.report(document, Path(folder) / "report.html")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport=PAGE, color_scheme="light")
        page.goto(path.as_uri())
        page.locator("main figure [data-i]").first.wait_for()
        picture = page.screenshot()
        browser.close()
    return picture


async def picture_of_explorer(document: Document) -> str:
    """The explorer in a terminal, as SVG."""
    subject = live_subject(open_source(MODEL[0]), document)
    app = Explorer(subject, ExplorerOptions(theme="textual-dark"))
    async with app.run_test(size=TERMINAL) as pilot:
        await pilot.press(*KEYS)
        await pilot.pause(1)
        return without_root(app.export_screenshot(title="assay explore", simplify=True))


def without_root(svg: str) -> str:
    """The picture with paths below the repository, and their lengths, as on any machine."""
    prefix = f"{ROOT}/"

    def shorter(found: re.Match[str]) -> str:
        letters = len(found[3])
        return f'textLength="{float(found[1]) * letters / (letters + len(prefix)):.1f}"{found[2]}>{found[3]}<'

    return re.sub(rf'textLength="([\d.]+)"([^>]*)>{re.escape(prefix)}([^<]*)<', shorter, svg)


def main() -> None:
    """Write both pictures."""
    document = assay.load(sys.argv[1]) if len(sys.argv) > 1 else measured()
    report, explorer = picture_of_report(document), asyncio.run(picture_of_explorer(document))
    if len(report) > MOST_BYTES:
        raise SystemExit(f"the picture of the report has {len(report):,} bytes: more than {MOST_BYTES:,}")
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "report.png").write_bytes(report)
    (PICTURES / "explorer.svg").write_text(explorer, encoding="utf-8")


if __name__ == "__main__":
    main()
