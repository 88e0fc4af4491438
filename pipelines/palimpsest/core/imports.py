"""Imports of libraries that load another one only where it is installed."""

import importlib
import sys
from types import ModuleType


def import_without(name: str, absent: str) -> ModuleType:
    """Imports a module as if another one were not installed.

    Some libraries load what this product does not use of them: spaCy loads torch, four seconds of processor time.

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


def import_with_json_schema(name: str) -> ModuleType:
    """Imports a library that uses jsonschema: DSPy, Altair, RAGAS.

    jsonschema loads rfc3987_syntax where JupyterLab has installed it, whose grammar takes three to five seconds.
    """
    import_without("jsonschema", "rfc3987_syntax")
    return importlib.import_module(name)
