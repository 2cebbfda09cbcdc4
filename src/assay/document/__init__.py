"""WHAT A MODEL IS: plain data with provenance, saved and loaded without torch.

Belongs here: the structs, their schema, reading and writing them. Does not: anything that runs a
model, computes a cost or formats a number.
"""
