"""Every rule there is. One entry a code; a duplicate is refused."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module

from assay.errors import UsageError
from assay.findings.facts import ModelFacts
from assay.findings.rule import Need, Rule, RuleMatch

Search = Callable[[ModelFacts], Iterable[RuleMatch]]

_RULES: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Enter a rule."""
    if rule.code in _RULES:
        raise ValueError(f"{rule.code} is taken by {_RULES[rule.code].summary!r}: a code means one thing")
    _RULES[rule.code] = rule
    return rule


def rule(
    code: str, severity: str, summary: str, *, advice: str, needs: tuple[Need, ...]
) -> Callable[[Search], Search]:
    """A decorator that makes a search a rule and enters it."""

    def enter(search: Search) -> Search:
        register(Rule(code, severity, summary, advice, search, needs))
        return search

    return enter


def rules() -> tuple[Rule, ...]:
    """All rules in the order of their codes."""
    _load()
    return tuple(_RULES[code] for code in sorted(_RULES))


def chosen(select: Iterable[str] | None = None, ignore: Iterable[str] | None = None) -> tuple[Rule, ...]:
    """The rules whose codes begin with one of `select` (all, where it is None) and with none of `ignore`."""
    for codes in (select, ignore):
        if codes is not None and not isinstance(codes, Iterable):
            raise UsageError(f"codes of rules must be a list of texts, got {codes!r}")
    wanted = None if select is None else tuple(_prefixes(select))
    unwanted = tuple(_prefixes(ignore or ()))
    return tuple(
        each
        for each in rules()
        if (wanted is None or each.code.startswith(wanted)) and not each.code.startswith(unwanted)
    )


def _prefixes(codes: Iterable[str]) -> Iterable[str]:
    for given in [codes] if isinstance(codes, str) else codes:
        prefix = str(given).strip().upper()
        if not prefix or not any(each.code.startswith(prefix) for each in rules()):
            raise UsageError(f"no rule has a code that begins with {given!r}: expected W101, W1 or W, for example")
        yield prefix


@cache
def _load() -> None:
    package = import_module("assay.findings.rules")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
