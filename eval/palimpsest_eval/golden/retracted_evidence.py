"""Golden questions whose evidence people deleted or edited: that is no loss of retrieval, so they are not judged."""

from palimpsest.core.ids import GENERAL
from palimpsest.sources.deletions import place_key
from palimpsest.store.decisions import Decisions
from palimpsest_eval.golden.build_tables import Tables, retired_ids
from palimpsest_eval.golden.questions import GoldenSet, Question, Quote
from palimpsest_eval.golden.resolve import QuoteIndex


def retracted_questions(golden: GoldenSet, tables: Tables, decisions: Decisions) -> tuple[str, ...]:
    """Returns the ids of the questions that need words which people deleted or replaced, sorted.

    A delete leaves hashes of whole texts, which a quote cannot be looked up in. So a quote counts as deleted where the
    build no longer has it and the delete removed its user, its document, or any text of its document.

    Args:
        golden: the golden set.
        tables: documents, document_texts, memories and versions of the build.
        decisions: of the home.
    """
    replaced = decisions.edited.keys() & retired_ids(tables)
    if not (decisions.tombstones or decisions.erased or replaced):
        return ()
    index = QuoteIndex(tables, golden.collection, {q.uri for x in golden.questions for q in (*x.evidence, *x.stale)})
    deletes = _Deletes(golden.collection, tables, decisions)

    def is_retracted(question: Question, quote: Quote) -> bool:
        user_id, project_id = question.user or golden.default_user, question.project or GENERAL
        found = index.find_memories(quote, user_id, project_id)
        if isinstance(found, str):
            return deletes.include(quote, user_id, project_id)
        return question.as_of is None and quote in question.evidence and found <= replaced

    return tuple(
        sorted(q.id for q in golden.questions if any(is_retracted(q, quote) for quote in (*q.evidence, *q.stale)))
    )


class _Deletes:
    """What was deleted from a collection."""

    def __init__(self, collection: str, tables: Tables, decisions: Decisions):
        self._collection, self._decisions = collection, decisions
        self._places = {text.place for text in decisions.erased}
        self._sessions: dict[str, set[str | None]] = {}
        for uri, session_id in tables["documents"].select("uri", "session_id").iter_rows():
            self._sessions.setdefault(uri, set()).add(session_id)

    def include(self, quote: Quote, user_id: str, project_id: str) -> bool:
        """Returns whether the document of a quote, or a text of it, was deleted."""
        uri, _, session_id = quote.uri.rpartition("#")
        names = {(quote.uri, s) for s in {None, *self._sessions.get(quote.uri, ())}}
        names |= {(uri, session_id)} if uri else set()
        return any(
            place_key(self._collection, user_id, *name) in self._places
            or self._decisions.hides_document(self._collection, user_id, *name, project)
            for name in names
            for project in {project_id, GENERAL}
        )
