"""WATCHING IT RUN: module calls and operations of one forward pass, with or without data (torch).

Belongs here: everything that runs a model and must leave it bit for bit as it was. Does not: finding
the model (`sources`), and what follows from what was seen (`analyses`).
"""
