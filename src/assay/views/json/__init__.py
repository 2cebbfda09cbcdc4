"""The JSON files: unique modules, unique operations, and the schemas of everything Assay writes."""
