"""The data of a web page: views made of blocks, and tables in columns. `web/src/payload.ts` describes the same."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

VERSION = 1

Unit = Literal["seconds", "bytes", "joules", "watts", "count", "exact", "share", "ratio", "number", "text"]
"""How the page writes a number: as `assay.units` does."""


class PageColumn(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One column: numbers (None is unknown), or text as indices into distinct words (-1 is unknown).

    A column with both shows the words and is sorted by the numbers. Without indices, each row has its own word.
    """

    key: str
    title: str
    unit: Unit = "text"
    numbers: list[float | int | None] | None = None
    shared: list[int] | None = None
    """How many characters each word starts with that the word before it has too, and that `words` leaves out."""
    words: list[str] | None = None
    codes: list[int] | None = None
    method: str = ""
    how: str = ""
    bar: bool = False
    right: bool = False
    """Whether its words are aligned like numbers."""
    hidden: bool = False
    link: str = ""
    """`module`, `op`, `tensor` or `rule`: what the text names."""
    state: str = ""
    """`severity`, `change`, `bound` or `verdict`: the text is one of a few states."""


class PageTable(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A table, or with `depth` a tree in preorder, in which a row with a run stands for its children."""

    rows: int
    columns: list[PageColumn]
    depth: list[int] | None = None
    run: list[int] | None = None
    order: list[int] | None = None
    """The places of the rows if runs are not shown; absent if they are in that order."""
    footer: list[list[str]] | None = None


class SectionRef(Struct, frozen=True):
    """A table that the page decodes when it is first shown."""

    section: str


TableRef = PageTable | SectionRef


class Split(Struct, frozen=True, omit_defaults=True):
    """A part of a figure, as a share of 1."""

    name: str
    share: float


class PageFigure(Struct, frozen=True):
    """A card of the overview."""

    label: str
    value: str
    range: str
    text: str
    method: str
    how: str
    detail: str
    split: list[Split]


class EvidenceItem(Struct, frozen=True):
    """A value behind a finding."""

    name: str
    value: str
    method: str
    how: str


class TrialRow(Struct, frozen=True):
    """A quantity before and after a change."""

    what: str
    before: str
    after: str
    begin: float | None = field(name="from")
    end: float | None = field(name="to")


class TrialItem(Struct, frozen=True):
    """A change that was tried on a copy of the model."""

    name: str
    verdict: str
    detail: str
    speedup: str
    rows: list[TrialRow]
    outputs: str


class FindingItem(Struct, frozen=True):
    """A finding with everything that is known about it."""

    code: str
    severity: str
    title: str
    advice: str
    gain: str
    gain_share: float | None
    confidence: str
    proven: bool
    """Whether trying it on a copy of the model made it faster."""
    verified: str
    modules: list[str]
    more_modules: int
    """Modules that are not listed, because there are many."""
    tensors: list[str]
    more_tensors: int
    evidence: list[EvidenceItem]
    trials: list[TrialItem]


class UnknownItem(Struct, frozen=True):
    """Something that is not known, and why."""

    what: str
    why: str


class PageBrief(Struct, frozen=True):
    """What a person should know first."""

    identity: list[str]
    figures: list[PageFigure]
    actions: list[FindingItem]
    more_actions: int
    next_step: str
    tries: bool
    problems: list[FindingItem]
    more_problems: int
    clean: str
    remarks: list[str]
    unknown: list[UnknownItem]
    partial: bool


class Block(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """A part of a view; `caption` states the conclusion."""

    title: str = ""
    caption: str = ""


class OverviewBlock(Block, frozen=True, tag="overview"):
    """The brief of the page."""


class Fact(Struct, frozen=True, omit_defaults=True):
    """A named value, and how it was obtained."""

    name: str
    value: str
    method: str = ""
    how: str = ""


class FactsBlock(Block, frozen=True, tag="facts"):
    """Named values."""

    rows: list[Fact]


class NotesBlock(Block, frozen=True, tag="notes"):
    """Sentences; with a severity, marked as such."""

    lines: list[str]
    severity: str = ""


class TableBlock(Block, frozen=True, tag="table"):
    """A table or tree; its `id` names its sorting and filter in links."""

    id: str
    table: TableRef
    height: int = 0


class MapBlock(Block, frozen=True, tag="map"):
    """The module tree as areas; `metrics` are keys of columns."""

    table: TableRef
    metrics: list[str]
    small: bool = False


class GraphBlock(Block, frozen=True, tag="graph"):
    """The data flow, one module level at a time."""

    section: str


class PeakLine(Struct, frozen=True):
    """A limit of the machine, in FLOPs per second."""

    name: str
    value: float


class RooflineBlock(Block, frozen=True, tag="roofline"):
    """Rates of ops or modules below the limits of the machine; the table has `intensity` and `flops_per_s`."""

    of: str
    """`ops` or `modules`: the view to which points lead."""
    table: TableRef
    peaks: list[PeakLine]
    bandwidth: float
    machine: str


class Bar(Struct, frozen=True, omit_defaults=True):
    """A horizontal bar."""

    name: str
    value: float
    parts: list[BarPart] = []
    low: float | None = None
    high: float | None = None
    note: str = ""
    link: str = ""


class BarPart(Struct, frozen=True):
    """A part of a stacked bar."""

    name: str
    value: float


class BarsBlock(Block, frozen=True, tag="bars"):
    """Horizontal bars."""

    unit: Unit
    bars: list[Bar]
    method: str = ""
    how: str = ""


class PageStage(Struct, frozen=True):
    """A named range of the x axis."""

    name: str
    first: int
    last: int


class AreaBlock(Block, frozen=True, tag="area"):
    """A quantity over the ops of a pass, with its peak."""

    unit: Unit
    values: list[float]
    peak: int
    stages: list[PageStage]
    phases: list[PageStage]
    x: str


class SpansBlock(Block, frozen=True, tag="spans"):
    """The calls and ops of one pass over time."""

    section: str


class PageAxis(Struct, frozen=True):
    """The x axis of lines."""

    title: str
    unit: Unit
    values: list[float]


class Line(Struct, frozen=True, omit_defaults=True):
    """One series, with the range of each value if it is known."""

    name: str
    values: list[float | None]
    low: list[float | None] = []
    high: list[float | None] = []
    method: str = ""


class LinesBlock(Block, frozen=True, tag="lines"):
    """Several series over one axis."""

    x: PageAxis
    series: list[Line]
    unit: Unit
    log: bool = False


class HeatBlock(Block, frozen=True, tag="heat"):
    """Rows by statistics, coloured by how far each is from the others."""

    table: TableRef
    statistics: list[str]


class TensorsBlock(Block, frozen=True, tag="tensors"):
    """A table of tensors beside the details of the selected one, which are in the section `details`."""

    table: TableRef
    details: str


class MapImage(Struct, frozen=True):
    """Outputs of a convolution as small grey images."""

    module: str
    class_name: str
    shape: str
    width: int
    height: int
    channels: list[bytes]
    numbers: list[int]


class ImagesBlock(Block, frozen=True, tag="images"):
    """Activation maps."""

    images: list[MapImage]


class FindingsBlock(Block, frozen=True, tag="findings"):
    """Findings in full."""

    findings: list[FindingItem]
    summary: str


AnyBlock = (
    OverviewBlock | FactsBlock | NotesBlock | TableBlock | MapBlock | GraphBlock | RooflineBlock | BarsBlock
    | AreaBlock | SpansBlock | LinesBlock | HeatBlock | TensorsBlock | ImagesBlock | FindingsBlock
)  # fmt: skip


class PageView(Struct, frozen=True, omit_defaults=True):
    """One view of the page; without blocks, `empty` states what is missing and the command that adds it."""

    id: str
    title: str
    blocks: list[AnyBlock]
    empty: str = ""
    badge: str = ""


class Page(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A page."""

    version: int
    title: str
    subtitle: str = ""
    partial: str = ""
    brief: PageBrief | None
    views: list[PageView]
    assay: str = ""


class PageData(Struct, frozen=True):
    """A page and the sections that it decodes on demand."""

    page: Page
    sections: dict[str, Any]
