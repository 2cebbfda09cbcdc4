"""WHAT TO DO: rules that read a document and say what a person should know or do, with the evidence.

Belongs here: the rules, their registry, the engine that runs them. Does not: figures that are worth having without
a finding (those are analyses), how findings are shown, or anything that runs a model.
"""
