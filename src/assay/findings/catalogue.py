"""The registry of all rules, one per code."""

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
    """Add a rule to the registry; a ValueError if its code is already in use."""
    if rule.code in _RULES:
        raise ValueError(
            f"rule code {rule.code} is already used by {_RULES[rule.code].summary!r}: choose another code"
        )
    _RULES[rule.code] = rule
    return rule


def rule(
    code: str, severity: str, summary: str, *, advice: str, needs: tuple[Need, ...]
) -> Callable[[Search], Search]:
    """A decorator that registers a search function as a rule."""

    def decorate(search: Search) -> Search:
        register(Rule(code, severity, summary, advice, search, needs))
        return search

    return decorate


def rules() -> tuple[Rule, ...]:
    """All rules, sorted by code."""
    _load()
    return tuple(_RULES[code] for code in sorted(_RULES))


def weight_rules() -> tuple[Rule, ...]:
    """The rules about weights, without importing those about passes, which takes 0.1 s."""
    return _rules_in("compression", "fit", "numbers", "plans")


def trace_rules() -> tuple[Rule, ...]:
    """The rules about profiler traces, without importing the others."""
    return _rules_in("traces")


def _rules_in(*modules: str) -> tuple[Rule, ...]:
    names = {import_module(f"assay.findings.rules.{module}").__name__ for module in modules}
    return tuple(_RULES[code] for code in sorted(_RULES) if _RULES[code].search.__module__ in names)


def selected_rules(select: Iterable[str] | None = None, ignore: Iterable[str] | None = None) -> tuple[Rule, ...]:
    """The rules whose code starts with a prefix in `select` (any code if None) and with no prefix in `ignore`."""
    for codes in (select, ignore):
        if codes is not None and not isinstance(codes, Iterable):
            raise UsageError(f"rule codes must be a list of strings, got {codes!r}")
    selected = None if select is None else tuple(_prefixes(select))
    ignored = tuple(_prefixes(ignore or ()))
    return tuple(
        each
        for each in rules()
        if (selected is None or each.code.startswith(selected)) and not each.code.startswith(ignored)
    )


def _prefixes(codes: Iterable[str]) -> Iterable[str]:
    """The codes in upper case; a UsageError for one that no rule code starts with."""
    for code in [codes] if isinstance(codes, str) else codes:
        prefix = str(code).strip().upper()
        if not prefix or not any(each.code.startswith(prefix) for each in rules()):
            raise UsageError(
                f"unknown rule code {code!r}: expected a code or the start of one, for example W101, W1 or W"
            )
        yield prefix


@cache
def _load() -> None:
    """Import every module of rules, which registers its rules."""
    package = import_module("assay.findings.rules")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
