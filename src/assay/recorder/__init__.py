"""Recording a pass: the module calls and ops of one forward pass, with or without data (torch).

Belongs here: everything that runs a model and must leave it unchanged, bit for bit. Does not belong here: finding
the model (`sources`) and analysing the recording (`analysis`).
"""
