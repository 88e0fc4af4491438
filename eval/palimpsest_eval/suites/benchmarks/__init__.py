"""Published benchmarks of memory: what each measures, on suites that the loaders make of its files."""
