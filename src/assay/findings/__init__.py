"""WHAT TO DO: rules that read a document and report problems, suggestions and notes, each with its evidence.

Belongs here: the rules, their registry and the engine that runs them. Does not belong here: values that are useful
without a finding (those are analyses), how findings are shown, or anything that runs a model.
"""
