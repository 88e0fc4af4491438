"""The thin query path: one API over a published build; imports none of torch, dspy, ragas, dagster, spacy or ranx."""

from palimpsest.query.reader import Reader, Results, open_home, open_index
from palimpsest.query.request.types import Filters, Memory, RankedMemory, Scope

__all__ = ["Filters", "Memory", "RankedMemory", "Reader", "Results", "Scope", "open_home", "open_index"]
