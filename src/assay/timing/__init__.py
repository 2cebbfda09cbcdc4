"""Timing of a running model: whole passes, module calls and ops. Nothing here counts work or formats results."""
