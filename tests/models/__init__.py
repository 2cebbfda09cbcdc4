"""Models shared by tests and benchmarks; none needs a download."""
