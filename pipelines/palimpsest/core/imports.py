"""Imports of libraries that load another one only where it is installed."""

import importlib
import sys
from types import ModuleType


def import_without(name: str, absent: str) -> ModuleType:
    """Imports a module as if another one were not installed.

    Some libraries load what this product does not use of them: spaCy loads torch, four seconds of processor time, and
    jsonschema, of Altair and DSPy, loads rfc3987_syntax, whose grammar takes as long.

    Args:
        name: of the module.
        absent: of the other one; where that is loaded already, nothing is different.
    """
    if absent in sys.modules:
        return importlib.import_module(name)
    sys.modules[absent] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        del sys.modules[absent]
