"""`assay check` for teams: baselines, budgets, `[tool.assay]`, SARIF, summaries and annotations."""

from __future__ import annotations

import json

import msgspec
import pytest
from handmade import conv_stack

from assay.analysis.cost.totals import with_cost
from assay.document import files
from assay.document.document import Document, Origin
from assay.document.weights import TensorStatistics, WeightsReport

NAN = "W101"


def weights(*names: str, nan: int = 3) -> Document:
    """A checkpoint whose tensors contain NaN values."""
    rows = [
        TensorStatistics((name,), "float32", (8, 8), 256, 64, nan=nan, inf=0, zeros=0, min=0.0, max=1.0)
        for name in names
    ]
    return Document(origin=Origin("file", "m", "m"), weights=WeightsReport(tensors=rows))


@pytest.fixture
def check(cli, in_place):
    """Runs `assay check m --select W101` with the given document; `every` leaves out the selection."""

    def call(*arguments: str, document: Document | None = None, every: bool = False):
        selection = () if every else ("--select", NAN)
        return cli("check", "m", *selection, *arguments, document=document or weights("a.weight"))

    return call


def project(directory, text: str) -> None:
    (directory / "pyproject.toml").write_text(text)


class TestBaseline:
    def test_known_findings_are_neither_shown_nor_counted(self, check):
        written = check("--baseline", "b.json", "--write-baseline", "--fail-on", "error")
        assert written.code == 0
        assert "wrote 1 finding to b.json" in written.err
        again = check("--baseline", "b.json", "--fail-on", "error", document=weights("a.weight", nan=9))
        assert again.code == 0
        assert NAN not in again.out
        assert "no new findings" in again.out
        assert "1 known finding of the baseline not shown" in again.err

    def test_new_ones_are_shown_and_counted(self, check):
        check("--baseline", "b.json", "--write-baseline")
        more = check("--baseline", "b.json", "--fail-on", "error", document=weights("a.weight", "b.weight"))
        assert more.code == 1
        assert "(new in 1 of 2 tensors)" in more.out

    def test_fixed_ones_are_reported(self, check):
        check("--baseline", "b.json", "--write-baseline")
        fixed = check("--baseline", "b.json", document=weights("a.weight", nan=0))
        assert "1 finding of the baseline is gone: update it with --write-baseline --force" in fixed.err
        skipped = check("--baseline", "b.json", document=with_cost(conv_stack()))
        assert "gone" not in skipped.err

    def test_it_is_replaced_only_with_force(self, check, in_place):
        check("--baseline", "b.json", "--write-baseline")
        before = (in_place / "b.json").read_bytes()
        refused = check("--baseline", "b.json", "--write-baseline", document=weights("z.weight"))
        assert refused.code == 2
        assert "--force" in refused.err
        assert (in_place / "b.json").read_bytes() == before
        assert check("--baseline", "b.json", "--write-baseline", "--force", document=weights("z.weight")).code == 0
        assert (in_place / "b.json").read_bytes() != before

    def test_an_incomplete_result_does_not_replace_it(self, check, in_place):
        document = weights("a.weight")
        lost = msgspec.structs.replace(document.weights, failures=("shard 2 is missing",))
        result = check("--baseline", "b.json", "--write-baseline", document=Document(weights=lost))
        assert result.code == 4
        assert not (in_place / "b.json").exists()

    def test_the_json_of_a_check_serves_as_one(self, check):
        check("--format", "json", "-o", "r.json")
        assert check("--baseline", "r.json", "--fail-on", "error").code == 0
        assert check("--baseline", "r.json", "--fail-on", "error", document=weights("b.weight")).code == 1

    def test_the_json_holds_the_comparison(self, check):
        check("--baseline", "b.json", "--write-baseline")
        content = json.loads(check("--baseline", "b.json", "--format", "json", document=weights("x")).out)
        assert content["baseline"]["known"] == 0
        assert [each["tensors"] for each in content["baseline"]["gone"]] == [["a.weight"]]

    def test_a_saved_document_holds_all_findings(self, check):
        check("--baseline", "b.json", "--write-baseline")
        check("--baseline", "b.json", "--save", "d.assay.json")
        assert [finding.code for finding in files.load("d.assay.json").findings] == [NAN]

    def test_missing_and_damaged_files_are_one_line_before_any_work(self, check, in_place):
        (in_place / "broken.json").write_text('{"assay_baseline": 1, "mod')
        for name in ("missing.json", "broken.json"):
            result = check("--baseline", name)
            assert (result.code, result.err.count("\n"), result.received) == (3, 1, {})
        assert check("--write-baseline").code == 2


class TestBudget:
    def test_an_exceeded_limit_is_exit_code_1(self, check, in_place):
        (in_place / "b.toml").write_text("macs = '10G'\nerrors = 0\nno = ['W102']\n")
        document = with_cost(conv_stack())
        passed = check("--budget", "b.toml", document=document, every=True)
        assert passed.code == 0, passed.err
        assert "MACs per pass" in passed.out
        (in_place / "b.toml").write_text(f"macs = {document.cost.forward.macs - 1}\n")
        exceeded = check("--budget", "b.toml", document=document)
        assert exceeded.code == 1
        assert "0 limits passed, 1 exceeded" in exceeded.out

    def test_an_unknown_value_is_not_passed_and_fails_if_strict(self, check, in_place):
        for strict, code in (("false", 0), ("true", 1)):
            (in_place / "b.toml").write_text(f"flops = '1G'\nstrict = {strict}\n")
            result = check("--budget", "b.toml")
            assert result.code == code
            assert "0 limits passed, 1 unknown" in result.out

    def test_the_json_has_a_line_per_limit(self, check, in_place):
        (in_place / "b.toml").write_text("parameters = 63\n")
        (line,) = json.loads(check("--budget", "b.toml", "--format", "json").out)["budget"]
        assert (line["name"], line["value"]["value"], line["limit"], line["verdict"]) == (
            "parameters", 64, 63, "exceeded",
        )  # fmt: skip

    def test_findings_of_the_baseline_count(self, check, in_place):
        check("--baseline", "b.json", "--write-baseline")
        (in_place / "b.toml").write_text("errors = 0\n")
        assert check("--baseline", "b.json", "--budget", "b.toml").code == 1

    @pytest.mark.parametrize(
        ("text", "code", "words"),
        [
            ("flop = 1", 2, "unknown key 'flop'"),
            ("flops = '1 apple'", 2, "flops must be a number"),
            ("flops = ", 2, "is not valid TOML"),
            ("[models.Other]\nflops = 1", 2, "has no limit for this model"),
            ("latency = {reference = 'ref.assay.json', ratio = 1.1}", 3, "no such file"),
        ],
    )
    def test_problems_are_one_line(self, check, in_place, text, code, words):
        (in_place / "b.toml").write_text(text)
        result = check("--budget", "b.toml")
        assert (result.code, result.err.count("\n")) == (code, 1)
        assert words in result.err

    def test_the_size_is_that_of_the_file(self, check, in_place):
        (in_place / "w.bin").write_bytes(bytes(1000))
        document = weights("a.weight")
        stored = msgspec.structs.replace(document.weights, path="w.bin")
        for limit, code in ((999, 1), (1000, 0)):
            (in_place / "b.toml").write_text(f"size = {limit}\n")
            assert check("--budget", "b.toml", document=Document(weights=stored)).code == code


class TestProject:
    def test_settings_apply_and_options_override_them(self, cli, in_place):
        project(in_place, '[tool.assay]\nselect = ["W1"]\nignore = ["W102"]\nfail-on = "error"\n')
        result = cli("check", "m", "-v", document=weights("a.weight"))
        assert result.code == 1
        assert f"settings from {in_place / 'pyproject.toml'}" in result.err
        assert cli("check", "m", "--fail-on", "never", document=weights("a.weight")).code == 0
        assert cli("check", "m", "--ignore", NAN, document=weights("a.weight")).code == 0
        assert cli("check", "m", "--no-config", document=weights("a.weight")).code == 0
        rules = json.loads(cli("check", "--rules", "--format", "json").out)["rules"]
        assert {rule["code"][:2] for rule in rules} == {"W1"}
        assert "W102" not in {rule["code"] for rule in rules}

    def test_the_nearest_file_up_to_the_repository_is_read(self, cli, in_place, monkeypatch):
        project(in_place, '[tool.assay]\nfail-on = "error"\n')
        inner = in_place / "repository" / "sub"
        inner.mkdir(parents=True)
        monkeypatch.chdir(inner)
        assert cli("check", "m", document=weights("a.weight")).code == 1
        (inner.parent / ".git").mkdir()
        assert cli("check", "m", document=weights("a.weight")).code == 0

    def test_paths_are_relative_to_the_file(self, cli, in_place, monkeypatch):
        project(in_place, '[tool.assay]\nbaseline = "b.json"\nbudget = "b.toml"\n')
        (in_place / "b.toml").write_text("parameters = 64\n")
        (in_place / "sub").mkdir()
        monkeypatch.chdir(in_place / "sub")
        assert cli("check", "m", "--write-baseline", document=weights("a.weight")).code == 0
        assert (in_place / "b.json").exists()
        assert "1 limit passed" in cli("check", "m", document=weights("a.weight")).out

    def test_limits_in_the_project_itself(self, cli, in_place):
        project(in_place, "[tool.assay.budget]\nparameters = 1\n[tool.assay.budget.models.m]\nparameters = 64\n")
        assert cli("check", "m", document=weights("a.weight")).code == 0
        project(in_place, "[tool.assay.budget]\nparameters = 1\n[tool.assay.budget.models.n]\nparameters = 64\n")
        assert cli("check", "m", document=weights("a.weight")).code == 1

    def test_rules_are_ignored_by_pattern_of_the_model(self, cli, in_place):
        project(in_place, '[tool.assay]\nfail-on = "error"\n[tool.assay.per-model-ignores]\n"old_*.bin" = ["W101"]\n')
        for name, code in (("dir/old_1.bin", 0), ("old_2.bin", 0), ("new_1.bin", 1)):
            assert cli("check", name, document=weights("a.weight")).code == code

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[tool.assay]\nselct = ['W1']", ["'selct'", "did you mean select", "per-model-ignores"]),
            ("[tool.assay]\nselect = 'W1'", ["select must be a list"]),
            ("[tool.assay]\nignore = ['Q']", ["ignore", "'Q'"]),
            ("[tool.assay]\nfail-on = 'all'", ["fail-on must be error, warning or never", "'all'"]),
            ("[tool.assay]\nbaseline = 3", ["baseline must be a path"]),
            ("[tool.assay]\nbudget = 3", ["budget must be"]),
            ("[tool.assay.budget]\nflop = 3", ["[tool.assay.budget]", "'flop'"]),
            ("[tool.assay]\nper-model-ignores = {'x' = 'W1'}", ['per-model-ignores."x"']),
            ("[tool]\nassay = 3", ["[tool.assay] must be a table"]),
            ("[tool.assay", ["is not valid TOML"]),
        ],
    )
    def test_a_broken_table_is_one_line_with_file_and_key(self, cli, in_place, text, words):
        project(in_place, text)
        result = cli("check", "m", document=weights("a.weight"))
        assert (result.code, result.err.count("\n"), result.received) == (2, 1, {})
        assert [word for word in ["pyproject.toml", *words] if word not in result.err] == []

    def test_a_file_of_another_tool_changes_nothing(self, cli, in_place):
        project(in_place, "[tool.ruff]\nline-length = 100\n")
        result = cli("check", "m", "-v", document=weights("a.weight"))
        assert result.code == 0
        assert "settings from" not in result.err


class TestFormats:
    def test_sarif_beside_the_report_and_on_stdout(self, check, in_place):
        result = check("--sarif", "x.sarif")
        assert NAN in result.out
        beside = json.loads((in_place / "x.sarif").read_text())
        assert beside == json.loads(check("--format", "sarif").out)
        assert [each["ruleId"] for each in beside["runs"][0]["results"]] == [NAN]
        assert check("--sarif", "x.sarif").code == 2
        assert check("--sarif", "x.sarif", "--force").code == 0

    def test_the_line_of_the_function_is_found(self, check, in_place):
        (in_place / "net.py").write_text("import torch\n\n\n@cached\ndef load():\n    pass\n\nnet = load()\n")
        for name, line in (("load", 5), ("net", 8), ("missing", None)):
            document = msgspec.structs.replace(weights("a"), origin=Origin("file", f"net.py:{name}", name))
            (result,) = json.loads(check("--format", "sarif", document=document).out)["runs"][0]["results"]
            place = result["locations"][0]["physicalLocation"]
            assert place["artifactLocation"]["uri"] == "net.py"
            assert place.get("region", {}).get("startLine") == line

    def test_markdown_has_a_table_and_folded_details(self, check, in_place):
        (in_place / "b.toml").write_text("errors = 0\n")
        out = check("--format", "md", "--budget", "b.toml", document=weights("a<b>|c\x1b")).out
        assert "| code | severity | finding | gain | verified |" in out
        assert "| budget | value | limit | verdict | method |" in out
        assert out.count("<details>") == out.count("</details>") == 1
        assert "\x1b" not in out
        assert "<b>" not in out

    def test_the_step_summary_is_appended(self, check, in_place, monkeypatch):
        path = in_place / "summary.md"
        path.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
        check()
        assert path.read_text() == "before\n"
        result = check("--summary")
        assert NAN in result.out
        assert path.read_text() == "before\n" + check("--format", "md").out + "\n"

    def test_a_summary_needs_github(self, check, monkeypatch):
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        result = check("--summary")
        assert (result.code, result.received) == (2, {})
        assert "GITHUB_STEP_SUMMARY" in result.err

    def test_annotations_are_workflow_commands_of_one_line(self, check, in_place):
        (in_place / "net.py").write_text("def load(): pass\n")
        (in_place / "b.toml").write_text("errors = 0\n")
        document = msgspec.structs.replace(weights("a\n::error::x%0A"), origin=Origin("file", "net.py:load", "load"))
        lines = check("--format", "github", "--budget", "b.toml", document=document).out.splitlines()
        assert len(lines) == 2
        assert lines[0].startswith("::error file=net.py,line=1,title=assay W101::3 NaN values")
        assert "%250A" in lines[0]
        assert lines[1] == "::error file=net.py,line=1,title=assay budget::errors: 1, limit 0, exceeded"

    def test_rules_have_no_sarif(self, cli):
        assert cli("check", "--rules", "--format", "sarif").code == 2
