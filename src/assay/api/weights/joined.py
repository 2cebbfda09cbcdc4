"""A model joined with the weights in its files: statistics under the model's names, and how the two differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from assay import host
from assay.analysis.stored_tensors import StoredMatch, match_stored
from assay.api.unquantized import unquantized
from assay.api.weights import summary_of, weights_document
from assay.checkpoint.statistics.settings import Progress, StatisticsSettings
from assay.document.document import Document, Failure, Run
from assay.document.roles import joint_role
from assay.document.rows import Tensor
from assay.document.this_machine import this_machine
from assay.document.weights import TensorStatistics, WeightsReport
from assay.errors import ReadError, UserCodeError
from assay.sources.opened import Opened
from assay.sources.stored_names import naming_of


def with_weights(
    document: Document,
    opened: Opened,
    source: object,
    progress: Progress | None = None,
    *,
    settings: StatisticsSettings | None = None,
    listing: bool = False,
) -> Document:
    """The document of an opened model with the statistics of `source`: a checkpoint of it, or the model itself.

    With `listing`, only headers are read.
    """
    is_config = source is opened and opened.origin.kind == "config"
    try:
        report = weights_document(source, settings=settings, progress=progress, listing=listing).weights
    except ReadError as error:
        if not is_config:
            raise
        report = WeightsReport(opened.origin.location, failures=(str(error),), files_lost=(str(error),))
    assert report is not None
    is_own = source is opened and not is_config
    if is_own or not document.tensors:
        return replace(document, weights=report)
    model = None if opened.saved is not None and not opened.runs else opened.model
    naming = naming_of(model, document.tensors)
    match = match_stored(document.tensors, report.tensors, naming, report.path, partial=report.partial)
    rows = _with_contents(report.tensors, document.tensors, match, source) if listing else report.tensors
    rows = _with_roles(rows, document.tensors, match)
    rows, untied = _under_names_of_model(document.tensors, rows, match)
    return replace(document, weights=summary_of(rows, report), weights_fit=replace(match.fit, untied=untied))


def without_pass(opened: Opened, why: str) -> Document:
    """The document of a model that cannot be run: its modules and tensors, and the reason."""
    from assay.recorder.inventory import take_inventory

    contents = take_inventory(opened.module)
    assumptions = (f"the model was not run: {why}", *unquantized(opened.model, contents.tensors))
    return Document(
        origin=opened.origin,
        machine=this_machine(),
        run=Run("none", assumptions=assumptions, timestamp=host.now()),
        modules=contents.modules,
        tensors=contents.tensors,
    )


def weights_alone(
    opened: Opened,
    why: str,
    *,
    settings: StatisticsSettings | None = None,
    listing: bool = False,
    progress: Progress | None = None,
) -> Document:
    """The document of stored tensors without a model, with the reason if a config or trust asked for one.

    If code that should have been interpreted could not be read, the document is partial.
    """
    document, error = (
        weights_document(opened, settings=settings, listing=listing, progress=progress),
        opened.model_error,
    )
    if opened.interpreted and error is not None:
        if document.weights is None or not document.weights.tensors:
            raise error
        unread = Failure(only_tensors(str(error)), "(root)", "", unread=True)
        return replace(document, run=replace(document.run, failure=unread))
    if opened.origin.kind != "config" and not isinstance(opened.model_error, UserCodeError):
        return document
    return replace(document, run=replace(document.run, assumptions=(only_tensors(why),)))


def only_tensors(why: str) -> str:
    """The sentence for a folder whose module tree cannot be shown."""
    return f"only the tensors are shown: {why}"


def _with_contents(
    rows: list[TensorStatistics], tensors: Sequence[Tensor], match: StoredMatch, source: object
) -> list[TensorStatistics]:
    """The rows of a listing, with the digests of tensors that are stored more than once, which are read for it."""
    whole = match.names_of(tensors, rows)
    copies = {rows[at].names[0] for parts in match.parts if len(parts) > 1 and parts[0] in whole for at in parts}
    if not copies:
        return rows
    pattern = "|".join(f"^{re.escape(name)}$" for name in sorted(copies))
    report = weights_document(source, filter=pattern).weights
    contents = {name: row.content for row in report.tensors for name in row.names} if report is not None else {}
    return [replace(row, content=contents.get(row.names[0], "")) for row in rows]


def _with_roles(
    rows: Sequence[TensorStatistics], tensors: Sequence[Tensor], match: StoredMatch
) -> list[TensorStatistics]:
    """The rows with the roles of the model's tensors, also of parts and copies, where the files state none."""
    roles: dict[int, list[str]] = defaultdict(list)
    for tensor, parts in zip(tensors, match.parts, strict=True):
        for at in parts:
            roles[at].append(tensor.role)
    return [replace(row, role=row.role or joint_role(roles[at])) for at, row in enumerate(rows)]


def _under_names_of_model(
    tensors: Sequence[Tensor], rows: Sequence[TensorStatistics], match: StoredMatch
) -> tuple[list[TensorStatistics], tuple[tuple[str, ...], ...]]:
    """The rows under the model's names, equal copies of a tied tensor once, and the names of unequal copies."""
    names, repeated, untied = match.names_of(tensors, rows), set(), []
    for tensor, parts in zip(tensors, match.parts, strict=True):
        first, *copies = parts or (-1,)
        if first not in names or not copies:
            continue
        same = (rows[first].content, rows[first].names)  # several files may have a tensor of one name
        equal = {at for at in copies if rows[at].content == same[0] or rows[at].names == same[1]}
        repeated |= equal
        if len(equal) < len(copies):
            del names[first]
            unequal = (rows[at].names[0] for at in parts if at not in equal)
            untied.append(tuple(sorted(unequal, key=lambda name: name != tensor.names[0])))
    kept = [replace(row, names=names.get(at, row.names)) for at, row in enumerate(rows) if at not in repeated]
    return kept, tuple(untied)
