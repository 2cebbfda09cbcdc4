"""The JSON output of the commands, and the schemas of all files that Assay writes."""
