"""What a page shows and saves is what the document holds, added up again here."""

from __future__ import annotations

import base64
import csv
import math
import struct
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay import units
from e2e.subjects import rich

COLOURS = """async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
    return new Set(pixels).size;
}"""


def parents(path):
    """The path and those of all modules around it."""
    parts = path.split(".") if path else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]


def parameters():
    """The parameters in each module, added up from the shapes of its tensors."""
    sums = defaultdict(int)
    for tensor in rich().tensors:
        if tensor.role == "parameter":
            for path in parents(tensor.names[0].rpartition(".")[0]):
                sums[path] += math.prod(tensor.type.shape)
    return sums


def flops():
    """The FLOPs in each module, added up from those of its ops."""
    document, sums = rich(), defaultdict(int)
    for op in document.ops:
        cost = document.cost.kinds[op.kind]
        for path in parents(document.modules[document.calls[op.call].module].path):
            sums[path] += cost.matrix_flops + cost.pointwise_flops
    return sums


def times():
    """The seconds of each module that was called; of a list of modules, those of what is in it."""
    document = rich()
    paths = [module.path for module in document.modules]
    called = {path: time.total_s for path, time in zip(paths, document.timing.modules, strict=True) if time}
    lists = {
        path: sum(called[one] for one in called if one.rpartition(".")[0] == path)
        for path, module in zip(paths, document.modules, strict=True)
        if module.class_name == "ModuleList"
    }
    return called | lists


def saved_rows(page, name):
    """The rows of the first table of a page, as it saves them."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").first.click()
    assert waiting.value.suggested_filename == f"{name}.csv"
    return list(csv.DictReader(Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()))


def shown(page, key):
    """The texts of a column of the tree by path, for modules alone."""
    titles = page.locator("[role=columnheader] button").all_inner_texts()
    place = next(at for at, title in enumerate(titles) if title.startswith(key))
    path = next(at for at, title in enumerate(titles) if title.startswith("path"))
    rows = page.locator("[role=treegrid] [data-row]").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))"
    )
    return {row[path]: row[place] for row in rows}


@pytest.mark.parametrize(("title", "computed"), [("parameters", parameters), ("FLOPs", flops)])
def test_the_tree_adds_up(visit, title, computed):
    page = visit(address="view=modules&modules.columns=path")
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.get_by_role("button", name="Expand all").click()
    texts, sums = shown(page, title), computed()
    wanted = {module.path or "(root)": units.count(sums[module.path]) for module in rich().modules}
    if computed is flops:
        wanted["spare"] = units.UNKNOWN  # it was never called
    assert {path: texts.get(path) for path in wanted} == wanted


def test_the_csv_of_the_tree_holds_raw_values(visit):
    rows = saved_rows(visit(address="view=modules"), "modules")
    document = rich()
    assert [row["path"] for row in rows] == ["(root)", *(module.path for module in document.modules[1:])]
    assert [int(row["params"]) for row in rows] == [parameters()[module.path] for module in document.modules]
    assert [row["class"] for row in rows] == [module.class_name for module in document.modules]
    shown = [float(row["time_s"]) if row["time_s"] else None for row in rows]
    assert shown == [pytest.approx(times().get(module.path), rel=1e-3) for module in document.modules]


def test_the_csv_of_tensors_holds_raw_values(visit):
    rows = saved_rows(visit(address="view=weights"), "tensors")
    tensors = rich().weights.tensors
    assert [row["name"] for row in rows] == [tensor.names[0] for tensor in tensors]
    for row, tensor in zip(rows, tensors, strict=True):
        for key in ("min", "max", "mean", "std"):
            value = getattr(tensor, key)
            assert row[key] == "" if value is None else float(row[key]) == pytest.approx(value, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("key", ["params", "flops", "time_s"])
@pytest.mark.parametrize("descending", [True, False])
def test_sorting_puts_siblings_in_order(visit, key, descending):
    page = visit(address=f"view=modules&modules.sort={'-' * descending}{key}")
    rows = saved_rows(page, "modules")
    siblings = defaultdict(list)
    for row in rows[1:]:
        siblings[row["path"].rpartition(".")[0]].append(row[key])
    for texts in siblings.values():
        known = [float(text) for text in texts if text]
        assert known == sorted(known, reverse=descending)
        assert not any(texts[len(known) :]), "what is unknown comes last"


def is_linear(module):
    return module.class_name == "Linear"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("type:Linear", is_linear),
        ("type:Linear params>1k", lambda module: is_linear(module) and parameters()[module.path] > 1000),
        (
            "params>=9216 -type:Block",
            lambda module: parameters()[module.path] >= 9216 and module.class_name != "Block",
        ),
        (r"/\.conv[12]$/", lambda module: module.path.endswith((".conv1", ".conv2"))),
        (
            "flops>1M type:/^Conv|Norm/",
            lambda module: flops()[module.path] > 1e6 and module.class_name.startswith(("Conv", "Batch")),
        ),
        ("time<1ms path:stages.1", lambda module: "stages.1" in module.path and times()[module.path] < 1e-3),
    ],
)
def test_the_filter_finds_what_it_says(visit, query, wanted):
    page = visit(address="view=modules")
    page.locator("[data-filter]").fill(query)
    page.locator("[role=status]", has_text=" of 73 rows").wait_for()
    found = {row["path"] for row in saved_rows(page, "modules")}
    assert found == {module.path or "(root)" for module in rich().modules if wanted(module)}


def test_a_query_that_cannot_be_read_is_explained(visit):
    page = visit(address="view=modules")
    page.locator("[data-filter]").fill("parms>1M")
    page.get_by_text("no column “parms”: choose from").wait_for()
    assert page.locator("[data-filter]").get_attribute("aria-invalid") == "true"


def test_the_cards_show_the_figures_of_the_document(visit):
    cards = {card.split("\n")[0]: card for card in visit().locator(".card").all_inner_texts()}
    document = rich()
    assert units.seconds(document.timing.whole.value) in cards["Time"]
    assert units.count(document.cost.forward.flops) in cards["Compute"]
    assert units.joules(document.profile.energy.whole.value) in cards["Energy"]


def test_what_is_saturated_is_named(visit):
    text = visit(address="view=activations").locator("main").inner_text()
    assert "1 module with more than half of the outputs saturated." in text  # gate.sigmoid


def test_a_chart_is_saved_as_svg(visit):
    root = ElementTree.parse(saved_chart(visit(address="view=map"), "SVG")).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "stages" in texts
    assert "var(" not in ElementTree.tostring(root, encoding="unicode"), "colours of the page are not known elsewhere"


def test_a_chart_is_saved_as_png(visit):
    page = visit(address="view=map")
    data = saved_chart(page, "PNG").read_bytes()
    size = page.locator("figure svg").first.bounding_box()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 2 * size["width"]
    assert height >= 2 * size["height"]
    drawn = page.evaluate(COLOURS, base64.b64encode(data).decode())
    assert drawn > 5, "the picture is blank"


def saved_chart(page, kind):
    """The first chart of a page as a file."""
    page.locator("figure").first.hover()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=kind, exact=True).first.click()
    assert waiting.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(waiting.value.path())
