"""WHAT A MODEL IS: plain data with provenance, saved and loaded without torch.

Belongs here: the structs, their schema, and reading and writing them. Does not belong here: anything that runs a
model, computes a cost or formats a number.
"""
