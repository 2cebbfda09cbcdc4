"""`assay.profile`: measured times of a model, its modules and ops, with memory, energy and bottlenecks."""
