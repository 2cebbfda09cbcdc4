"""`assay report` and `assay serve`: formats, files, failures, and what the server answers to whom."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import handmade
import jsonschema
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import assay
from assay.api.report.server import ReportServer
from assay.cli.main import run
from assay.errors import ReadError, UsageError
from assay.views.json.schema import schema

GOLDEN = Path(__file__).parents[1] / "golden" / "screens" / "tagger.assay.json.gz"
COMMENT = 65_536
"""Characters that GitHub accepts in a comment."""


@pytest.fixture
def document(tmp_path: Path) -> str:
    return str(shutil.copy(GOLDEN, tmp_path))


@pytest.fixture
def server(document: str) -> Iterator[ReportServer]:
    with ReportServer([document]) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def answer(server: ReportServer, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{server.server_port}"})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data


def test_a_page_is_written_and_not_overwritten(document: str, tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.html"
    assert run(["report", document, "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert 'id="data-page"' in text
    assert "page.html" in capsys.readouterr().err
    assert run(["report", document, "-o", str(page)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["report", document, "-o", str(page), "--force"]) == 0


def test_the_end_of_the_name_decides_the_format(document: str, tmp_path: Path) -> None:
    for name, start in (("a.md", "## Tagger"), ("a.txt", "Tagger"), ("a.json", "{"), ("a.htm", "<!doctype html>")):
        assert run(["report", document, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_markdown_goes_to_stdout_and_fits_a_comment(document: str, capsys) -> None:
    assert run(["report", document, "--format", "md"]) == 0
    out = capsys.readouterr().out
    assert "**Time**" in out
    assert "| code | severity | title |" in out
    assert len(out) < COMMENT
    assert run(["report", document, "--format", "md", "--full"]) == 0
    assert len(capsys.readouterr().out) < COMMENT


def test_json_has_the_findings_of_the_document(document: str, capsys) -> None:
    assert run(["report", document, "--format", "json"]) == 0
    file = json.loads(capsys.readouterr().out)
    jsonschema.validate(file, json.loads(schema("report")))
    stored = assay.load(document)
    assert [one["code"] for one in file["findings"]] == [one.code for one in stored.findings]
    assert file["brief"]["identity"][0] == "Tagger"


def test_a_partial_document_gives_a_partial_report(tmp_path: Path) -> None:
    path = tmp_path / "stopped.assay.json"
    assay.save(handmade.stopped(), path)
    page = tmp_path / "page.html"
    assert run(["report", str(path), "-o", str(page)]) == 4
    assert not page.exists()
    assert (tmp_path / "page.partial.html").exists()


def test_a_checkpoint_and_a_model_can_be_reported_on(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    save_file({"a.weight": np.ones((4, 4), np.float32), "a.bias": np.full(4, np.nan, np.float32)}, weights)
    assert run(["report", str(weights), "-o", str(tmp_path / "w.md")]) == 0
    assert "NaN" in (tmp_path / "w.md").read_text(encoding="utf-8")
    model = tmp_path / "net.py"
    model.write_text(
        "import torch\ndef load():\n    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())\n"
    )
    arguments = ["report", f"{model}::load", "--inputs", "2x8", "--no-measure", "-o", str(tmp_path / "net.json")]
    assert run(arguments) == 0
    file = json.loads((tmp_path / "net.json").read_text(encoding="utf-8"))
    assert file["brief"]["identity"][0] == "Sequential"


def test_a_comparison_names_what_changed(document: str, tmp_path: Path, capsys) -> None:
    other = tmp_path / "other.assay.json"
    assay.save(handmade.conv_stack(), other)
    assert run(["report", document, "--against", str(other), "--format", "md"]) == 0
    out = capsys.readouterr().out
    assert "Conv2d" in out
    assert run(["report", document, "--against", document, "--format", "txt"]) == 0
    assert "no differences" in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["missing.assay.json"], 3), (["x", "--format", "pdf"], 2), ([], 2), (["x", "-o", "no/such/dir/a.html"], 2)],
)
def test_bad_arguments_are_refused_in_one_line(arguments: list[str], code: int, capsys) -> None:
    assert run(["report", *arguments]) == code
    err = capsys.readouterr().err.strip()
    assert err.startswith("assay: ")
    assert "\n" not in err


def test_a_damaged_document_replaces_nothing(tmp_path: Path, document: str) -> None:
    page = tmp_path / "page.html"
    assert run(["report", document, "-o", str(page)]) == 0
    before = page.read_bytes()
    Path(document).write_bytes(GOLDEN.read_bytes()[:500])
    assert run(["report", document, "-o", str(page), "--force"]) == 3
    assert page.read_bytes() == before


def test_python_writes_reports_of_results(tmp_path: Path) -> None:
    document = assay.load(GOLDEN)
    assert assay.report(document, tmp_path / "a.html") == tmp_path / "a.html"
    assert assay.report(document.weights, tmp_path / "w.md") == tmp_path / "w.md"
    with pytest.raises(UsageError, match="unknown format 'pdf'"):
        assay.report(document, tmp_path / "a.pdf", format="pdf")
    with pytest.raises(UsageError, match="exists"):
        assay.report(document, tmp_path / "a.html", overwrite=False)


def test_the_server_answers_this_machine_alone(server: ReportServer) -> None:
    assert server.address.startswith("http://127.0.0.1:")
    status, page = answer(server, "/")
    assert status == 200
    assert b'name="assay-live"' in page
    assert b"connect-src 'self'" in page
    assert answer(server, "/state")[0] == 200
    assert answer(server, "/", "evil.example:80")[0] == 403
    assert answer(server, "/../../etc/passwd")[0] == 404


def test_the_page_changes_with_the_document_and_a_damaged_one_keeps_the_last_page(
    server: ReportServer, document: str
) -> None:
    before, page = answer(server, "/state")[1], answer(server, "/")[1]
    assert before in page  # what the page compares with
    whole = Path(document).read_bytes()
    Path(document).write_bytes(b"{")
    assert answer(server, "/state")[1] == before
    assert answer(server, "/")[1] == page
    Path(document).unlink()
    assert answer(server, "/")[1] == page
    Path(document).write_bytes(whole)
    after = answer(server, "/state")[1]
    assert after != before
    assert after in answer(server, "/")[1]


def test_several_documents_have_a_list(document: str, tmp_path: Path) -> None:
    other = tmp_path / "<b>.assay.json"
    assay.save(handmade.conv_stack(), other)
    with ReportServer([document, str(other)]) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        try:
            listed = answer(serving, "/")[1].decode()
            assert "&lt;b&gt;.assay.json" in listed
            assert answer(serving, "/2/")[0] == 200
            assert [answer(serving, path)[0] for path in ("/3/", "/0/", "/x/")] == [404] * 3
        finally:
            serving.shutdown()
            thread.join()


def test_a_server_is_not_started_for_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ReadError):
        ReportServer([str(tmp_path / "missing.assay.json")])


def test_an_unknown_ending_is_refused_and_a_dash_is_stdout(
    document: str, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", document, "-o", "a.pdf"]) == 2
    assert "unknown ending '.pdf'" in capsys.readouterr().err
    assert run(["report", document, "-o", "-", "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith("## Tagger")
    assert not Path("-").exists()


def test_a_pass_that_stopped_is_explained(tmp_path: Path, capsys) -> None:
    path = tmp_path / "stopped.assay.json"
    assay.save(handmade.stopped("shapes do not fit"), path)
    assert run(["report", str(path), "-o", str(tmp_path / "a.html")]) == 4
    assert "stopped in module 3 (Conv2d)" in capsys.readouterr().err


def test_the_weights_of_an_exported_program_are_read(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (torch.zeros(1, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    assert run(["report", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "a.json")]) == 0
    file = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert "weights" in file["brief"]["clean"]
