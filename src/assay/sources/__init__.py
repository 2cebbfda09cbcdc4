"""Opening models: turn a path, name or object into a model, and find the inputs to call it with.

Belongs here: opening and importing, reading model files, finding inputs. Does not belong here: running the model
to measure it, or formatting anything.
"""
