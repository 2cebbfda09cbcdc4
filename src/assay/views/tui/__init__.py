"""The terminal explorer, for keyboard and mouse. This is the only package that imports textual.

It only displays. Reading, running and measuring a model happen elsewhere; the explorer gets a document and a
`ModuleInspector`.
"""
