"""Previews of results: what each shows of itself at a prompt and in a notebook. `assay.display` finds them."""
