"""Writes units.json, what `assay.units` makes of many values, which format.test.ts compares with format.ts."""

import json
from pathlib import Path

from assay import units

TINY = [0, 1e-21, 1e-12, 9.996e-10, 1.25e-6, 3.125e-4, 0.0125, 0.1875, 0.3125, 0.5, 0.99949, 0.9995, 0.99996]
SMALL = [1, 1.005, 1.125, 9.995, 12.35, 99.96, 100.5, 101.5, 999, 999.4, 999.96]
LARGE = [1000, 1023, 1024, 1152, 1536, 9408, 25_557_032, 1024**2, 1.5 * 1024**3, 4_089_184_256, 123_456_789_012]
SIZES = [*TINY, *SMALL, *LARGE, 2**53, 1e15, 1e18, 999_960_000_000_000, 1e21, 1e24]
WHOLE = [size for size in SIZES if size == int(size)]

writers = {
    "count": (units.count, SIZES),
    "bytes": (units.size, SIZES),
    "seconds": (units.seconds, [*SIZES, 0.00099996, 1e-9]),
    "joules": (units.joules, SIZES),
    "watts": (units.watts, SIZES),
    "exact": (lambda value: units.exact(None if value is None else int(value)), WHOLE),
    "share": (lambda value: units.share(value, 1), [*TINY, *SMALL, 0.0375, 0.92, 1e-4]),
    "ratio": (units.ratio, SIZES),
}
golden = {
    unit: [[value, write(value)] for value in [*sizes, *(-size for size in sizes if size), None]]
    for unit, (write, sizes) in writers.items()
}
lines = ",\n".join(f'"{unit}": {json.dumps(rows, ensure_ascii=False)}' for unit, rows in golden.items())
Path(__file__).with_name("units.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
