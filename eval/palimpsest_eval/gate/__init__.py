"""May a build be published? Invariants, baselines, comparisons and the verdict."""
