"""The cost formulas, one family per file. Importing this package registers all of them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
