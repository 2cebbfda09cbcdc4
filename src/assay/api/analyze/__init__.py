"""`assay.analyze`: structure, weights, cost, memory, time, energy and findings of one model."""
