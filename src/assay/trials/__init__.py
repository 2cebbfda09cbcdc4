"""PROVING IT: apply a change to a copy of a model in another process, compare its outputs, measure before and after.

Belongs here: the changes, what they are compared by, the process they run in, and scripts that apply them. Does not
belong here: deciding which change is worth trying (those are findings), and how results look.
"""
