"""Questions as they were asked and answered: what a judge of contexts, RAGAS or another, needs to know of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.eval.golden.golden_run import BUDGET_TOKENS, DEPTH, TOP, Searcher
from palimpsest.eval.golden.questions import Question, resolve
from palimpsest.eval.metrics.rows import json_rows
from palimpsest.eval.suites.suite import Suite
from palimpsest.eval.suites.suite_collection import SHARED_USER, collection_name, corpus_id
from palimpsest.query.request.types import Scope
from palimpsest.store.tables import empty


@dataclass(frozen=True)
class Asked:
    """One question.

    Attributes:
        query_id: its id.
        question: its words.
        reference: the words that answer it: golden quotes, or the texts of a suite's relevant rows, one a line.
        relevant: ids of what it needs.
        ranked: ids of what was found, best first, each once.
        contexts: texts of the top five.
        packed: the packed context.
    """

    query_id: str
    question: str
    reference: str
    relevant: tuple[str, ...]
    ranked: tuple[str, ...]
    contexts: tuple[str, ...]
    packed: str


def asked_of_golden(
    reader: Searcher,
    questions: Sequence[Question],
    tables: Mapping[str, pl.DataFrame],
    collection: str,
    default_user: str,
    *,
    strategy: str = "auto",
    budget_tokens: int = BUDGET_TOKENS,
    depth: int = DEPTH,
) -> list[Asked]:
    """Asks the answerable golden questions; rankings and needs both by name of the need."""
    judged = resolve(questions, {"versions": empty("versions"), **tables}, collection, default_user)
    told = []
    for item in judged:
        q = item.question
        if not q.answerable:
            continue
        filters = {"k": depth, "strategy": strategy, "budget_tokens": budget_tokens} | q.filters
        found = reader.search(q.question, Scope(collection, item.user_id), **filters)
        told.append(
            Asked(
                q.id,
                q.question,
                "\n".join(e.quote for e in q.evidence),
                tuple(sorted(item.qrels())),
                tuple(item.collapse(str(m.memory_id) for m in found.memories)),
                tuple(m.text for m in found.memories[:TOP]),
                found.context,
            )
        )
    return told


def asked_of_suite(
    reader: Searcher, suite: Suite, *, strategy: str = "auto", budget_tokens: int = BUDGET_TOKENS, depth: int = DEPTH
) -> list[Asked]:
    """Asks the judged queries of a suite, each inside its scope; rankings and needs by the rows' ids."""
    needed = {q.query_id: sorted(c for c, g in suite.qrels[q.query_id].items() if g >= 1) for q in suite.judged}
    wanted = {c for ids in needed.values() for c in ids}
    texts: dict[str, str] = {}
    for path in suite.corpus_files:
        texts |= {row["_id"]: row["text"] for _, row in json_rows(path) if row["_id"] in wanted}
    told = []
    for q in suite.judged:
        where = Scope(collection_name(suite), q.scope or SHARED_USER)
        found = reader.search(q.text, where, k=depth, strategy=strategy, budget_tokens=budget_tokens)
        ids = needed[q.query_id]
        told.append(
            Asked(
                q.query_id,
                q.text,
                "\n".join(texts[c] for c in ids),
                tuple(ids),
                tuple(dict.fromkeys(corpus_id(m.uri) for m in found.memories)),
                tuple(m.text for m in found.memories[:TOP]),
                found.context,
            )
        )
    return told
