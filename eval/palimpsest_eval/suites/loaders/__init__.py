"""Public data sets as they are distributed, recognized by their shape and converted to suites once per content."""

from palimpsest_eval.suites.loaders.convert import as_suite

__all__ = ["as_suite"]
