"""THE VERBS of Assay, one module or package each; `assay.NAME` is the public way to all of them."""
