"""The page that the package ships is small, and is what its sources build."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.views.html.render import shell

WEB = Path(__file__).parents[2] / "web"
CONFIG = ("index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts")
BUILD = "run `make web` and commit src/assay/views/html/static/report.html"


def source_digest() -> str:
    """The digest that the build writes into the page: of `sha256sum` of all its sources."""
    files = [*CONFIG, *(path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*") if path.is_file())]
    lines = [f"{hashlib.sha256((WEB / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_the_page_is_small():
    page = shell().encode()
    assert len(page) <= 200_000
    assert len(gzip.compress(page, 9)) <= 70_000


def test_the_page_was_built_from_its_sources():
    built = re.search(r'<meta name="assay-source" content="(\w+)">', shell())
    assert built is not None, BUILD
    assert built[1] == source_digest(), BUILD


def test_building_it_again_gives_the_same_page(tmp_path):
    node = shutil.which("node")
    vite = WEB / "node_modules" / "vite" / "bin" / "vite.js"
    if node is None or not vite.exists():
        pytest.skip("node or web/node_modules is missing: run `npm ci` in web/")
    command = [node, str(vite), "build", "--outDir", str(tmp_path), "--logLevel", "error"]
    subprocess.run(command, cwd=WEB, check=True)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == shell(), BUILD
