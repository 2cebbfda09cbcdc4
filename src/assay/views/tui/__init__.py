"""THE TERMINAL EXPLORER: plain data on a screen, for keys and mouse. The one package that imports textual.

Belongs here: what a screen needs. Does not: reading, running or weighing a model, which comes in as a document
and a `ModuleInspector`.
"""
