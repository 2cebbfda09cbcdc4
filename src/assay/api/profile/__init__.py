"""`assay.profile`: how long a model takes, where, and what holds it back."""
