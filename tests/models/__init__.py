"""Models that tests and benchmarks share; none of them needs a download."""
