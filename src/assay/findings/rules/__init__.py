"""The rules, one file per topic. Codes: S structure, C computation, M memory, W weights."""
