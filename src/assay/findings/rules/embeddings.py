"""Rules about embedding tables: how much of the model they are."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document.provenance import Figure, Modelled
from assay.document.roles import PARAMETER
from assay.findings.catalogue import rule
from assay.findings.facts import BY_TENSORS, ModelFacts, share_of
from assay.findings.gains import bytes_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import FLOW, MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch

EMBEDDING_SHARE = 0.5
MIN_EMBEDDING_PARAMETERS = 1_000_000
"""Parameters; a smaller table is not worth a finding, whatever its share."""
_SHRINK_TIED = (
    "Shrink the table, which also makes the output projection faster: use a smaller vocabulary, a factorised table "
    "(a narrow table and a projection), or a narrower dtype."
)


@rule(
    "S103",
    "advice",
    "embedding tables that hold most of the parameters",
    advice="Shrink the tables, which saves more than any change to the layers: use a smaller vocabulary, a "
    "factorised table (a narrow table and a projection), a table tied to the output projection, or a narrower dtype.",
    needs=(MODULES, WHOLE_PASS, FLOW),
)
def embedding_share(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Embedding tables that hold at least half of all parameters; a note if half only with output projections."""
    tables, tied = _tables(facts)
    whole = facts.parameters.count
    for chosen, shared in ((tables - tied, False), (tables, True)):
        count = facts.elements_of(chosen)
        if whole and count >= MIN_EMBEDDING_PARAMETERS and count >= EMBEDDING_SHARE * whole:
            yield _held_by_tables(facts, sorted(chosen), count, shared)
            return


def _tables(facts: ModelFacts) -> tuple[set[int], set[int]]:
    """The parameters that lookups read, and those of them that matrix products read too: output projections."""
    by_storage = {
        storage: index
        for index, storage in facts.tensor_storages.items()
        if facts.document.tensors[index].role == PARAMETER
    }
    lookups = facts.ops_of("aten.embedding", "aten.embedding_bag", "aten._embedding_bag")
    storages = {facts.flow.operand(op, "weight") for op in lookups}
    tables = {by_storage[storage]: storage for storage in storages if storage is not None and storage in by_storage}
    tied = {
        index
        for index, storage in tables.items()
        if any(facts.kind_cost(op).macs for op in facts.flow.readers.get(storage, []))
    }
    return set(tables), tied


def _held_by_tables(facts: ModelFacts, tables: list[int], count: int, shared: bool) -> RuleMatch:
    """The match for `tables`; `shared` if some of them are output projections too."""
    tensors, whole = facts.document.tensors, facts.parameters.count or 0
    names = [tensors[index].names[0] for index in tables]
    owners = [i for i, module in enumerate(facts.document.modules) if set(module.tensors.values()) & set(tables)]
    tied = ", with the output projection tied to them" if shared else ""
    half = Modelled("half the bytes of the tables", ("a dtype of half the width, or half the rows or columns",))
    size = sum(tensors[index].bytes for index in tables)
    return RuleMatch(
        f"embedding tables hold {units.share(count, whole)} of all parameters{tied}: "
        f"{joined_names(fold_names(names))}",
        {
            "embedding_parameters": Figure(count, BY_TENSORS),
            "parameters": Figure(whole, BY_TENSORS),
            "share_of_parameters": share_of(count, whole, BY_TENSORS),
        },
        modules=owners,
        tensors=names,
        gain=bytes_gain(size / 2, facts.parameter_bytes, half),
        severity="note" if shared else "",
        advice=_SHRINK_TIED if shared else "",
    )
