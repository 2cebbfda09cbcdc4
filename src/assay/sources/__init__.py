"""WHERE A MODEL COMES FROM: whatever names or holds one, opened without surprise, and what to call it with.

Belongs here: opening and importing, reading model files, finding inputs. Does not: running the model for
its figures, or formatting anything.
"""
