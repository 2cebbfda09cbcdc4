"""Both scanners, if the native one was built."""

from __future__ import annotations

import pytest

from assay.trace.read import reference, scanner

ENGINES = {"python": reference}
if scanner.is_native():
    ENGINES["native"] = scanner.scanner


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param]
