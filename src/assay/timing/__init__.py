"""Reading clocks while a model runs: whole passes, module calls, operations. Nothing here counts or formats."""
