"""The JSON Schemas of the files that Assay writes, generated from the structs that are encoded."""

from __future__ import annotations

import msgspec

from assay.analysis.roofline import Roofline
from assay.document.document import Document
from assay.document.machine import MachineReport
from assay.document.trace import Trace, Traces
from assay.findings.baseline import Baseline
from assay.views.json.cost import CostFile
from assay.views.json.files import MODULES_NAME, OPS_NAME, ModulesFile, OpsFile
from assay.views.json.findings import FindingsFile
from assay.views.json.laws import LawsFile
from assay.views.json.memory import MemoryFile
from assay.views.json.params import ParamsFile
from assay.views.json.profile import ProfileFile
from assay.views.json.report import ReportFile
from assay.views.json.summary import SummaryFile

_FILES: dict[str, tuple[type[msgspec.Struct], str]] = {
    "modules": (ModulesFile, MODULES_NAME),
    "ops": (OpsFile, OPS_NAME),
    "document": (Document, "*.assay.json"),
    "cost": (CostFile, "assay cost --format json"),
    "laws": (LawsFile, "assay cost --vary --format json"),
    "roofline": (Roofline, "assay cost --device NAME --format json"),
    "memory": (MemoryFile, "assay memory --format json"),
    "summary": (SummaryFile, "assay summary --format json"),
    "params": (ParamsFile, "assay params --format json"),
    "findings": (FindingsFile, "assay check --format json"),
    "baseline": (Baseline, "assay check --write-baseline"),
    "machine": (MachineReport, "assay machine --format json"),
    "trace": (Trace, "assay trace FILE --format json"),
    "traces": (Traces, "assay trace DIR --format json"),
    "profile": (ProfileFile, "assay profile --format json"),
    "report": (ReportFile, "assay report --format json"),
}

NAMES = tuple(_FILES)


def schema(name: str) -> bytes:
    """The JSON Schema named `name`, indented by two spaces, with a final line break."""
    kind, title = _FILES[name]
    titled = {"title": title, **msgspec.json.schema(kind)}
    return msgspec.json.format(msgspec.json.encode(titled), indent=2) + b"\n"
