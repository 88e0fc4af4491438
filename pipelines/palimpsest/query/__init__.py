"""The thin query path: one API over a published build; imports none of torch, dspy, ragas, dagster, spacy or ranx."""

from palimpsest.query.context.lines import ChatMessage, order_messages
from palimpsest.query.reader import Reader, open_home, open_index
from palimpsest.query.request.search_request import SearchRequest
from palimpsest.query.request.types import Filters, Memory, RankedMemory, Scope
from palimpsest.query.result import SearchResult

Results = SearchResult
"""The earlier name of `SearchResult`."""

__all__ = [
    "ChatMessage",
    "Filters",
    "Memory",
    "RankedMemory",
    "Reader",
    "Results",
    "Scope",
    "SearchRequest",
    "SearchResult",
    "open_home",
    "open_index",
    "order_messages",
]
