"""PUBLIC FUNCTIONS: one module or package per function. Users call them as `assay.NAME`."""
