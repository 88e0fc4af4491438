"""Public sets as they are handed out, laid out as suites: told apart by shape, converted once by content."""

from palimpsest.eval.suites.loaders.convert import as_suite

__all__ = ["as_suite"]
