"""The run of a collection's golden questions over one build: what the gate judges, and what is saved with the build."""

import datetime as dt
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from palimpsest.core.ids import GENERAL, JsonRecord, JsonValue
from palimpsest.sources.deletions import place_key
from palimpsest.store.decisions import Decisions
from palimpsest.text.date_mentions import find_date_mentions
from palimpsest.text.questions import parse_question_time
from palimpsest_eval.golden.questions import GoldenSet, Question, Quote, Tables, retired_ids
from palimpsest_eval.golden.resolve import QuoteIndex, ResolvedQuestion, resolve
from palimpsest_eval.golden.retrieval_run import DEPTH, RetrievalRun, Searcher, SearchSettings, search_queries
from palimpsest_eval.metrics import Scores, summarise

# How many questions without an answer could be turned away, while hardly any with an answer is.

MAX_LOST = 0.02
ABSTENTION = "abstention recall at <= 2 % lost"


def caught_questions(probabilities: Mapping[str, float], unanswerable: frozenset[str]) -> dict[str, float]:
    """Returns, for each unanswerable question, 1.0 where its probability of an answer is below the threshold.

    The threshold is the highest below which at most 2 % of the answerable questions are. Nothing is returned where one
    of the two kinds is missing.

    Args:
        probabilities: of an answer, of each question.
        unanswerable: ids of the questions without an answer.
    """
    answerable = sorted(p for q, p in probabilities.items() if q not in unanswerable)
    judged = sorted(unanswerable & probabilities.keys())
    if not answerable or not judged:
        return {}
    threshold = answerable[int(MAX_LOST * len(answerable))]
    return {q: float(probabilities[q] < threshold) for q in judged}


TOP = 5
STALE, DUPLICATES = f"stale@{TOP}", f"duplicates@{TOP}"
RETIRED = "retired"
# The share of the tokens of a context that are of memories which no piece of evidence is in.
IRRELEVANT = "irrelevant_tokens"
# The tokens of a context as it is shown, citations and sources included, and the share of them that is of evidence.
CONTEXT_TOKENS, CONTEXT_PRECISION = "context_tokens", "context_precision"
# Whether all evidence of a question is in its context, and how many pieces of evidence 1,000 tokens of it hold.
PACKED_ALL, EVIDENCE_RATE = "packed_all", "evidence_per_1000_tokens"
# The share of the results returned, at most five, that is relevant.
RETURNED_PRECISION = f"returned_P@{TOP}"
# The share of the top five that is relevant, of the questions with `MIN_BROAD` or more pieces of evidence.
BROAD_PRECISION, MIN_BROAD = f"broad_P@{TOP}", 5
# Whether any result of a question was scored by it: a part of the ranking that falls silent may cost little recall.
SIGNALS = {"vector_signal": "vector_score", "words_signal": "words_score"}
# The share of the requested results that were returned: where the first five contain nearly all answers, no recall
# shows that the others are missing.
FILLED = f"filled@{DEPTH}"
DIGITS = 9  # of a value: a baseline's file has as many, so that an equal run compares as equal


@dataclass(frozen=True)
class Hit:
    """One of a question's top results, identified by its source, so that two builds can be compared."""

    memory_id: str
    source: str
    relevant: bool = False
    stale: bool = False

    def to_line(self) -> str:
        """Returns `id RS source`: one line a result, so that a change of a baseline can be read in a diff."""
        return f"{self.memory_id} {'R' if self.relevant else '-'}{'S' if self.stale else '-'} {self.source}"

    @staticmethod
    def from_line(line: str) -> "Hit":
        """Returns the hit that `to_line` gave."""
        memory_id, marks, source = line.split(" ", 2)
        return Hit(memory_id, source, relevant="R" in marks, stale="S" in marks)


@dataclass(frozen=True)
class Miss:
    """One thing that a question needs, and where it was lost. Ranks count from 1; None is beyond the first hundred."""

    question_id: str
    question: str
    need: str
    cause: str
    rank: int | None = None
    vector_rank: int | None = None
    strategy: str = ""


@dataclass(frozen=True)
class GoldenRun(JsonRecord):
    """What one collection's golden questions got from one build.

    Attributes:
        collection: name of the collection.
        build_id: the build.
        golden_hash: of the questions.
        model: id of the embedder.
        commit: of the code.
        settings: strategy, budget_tokens, depth: two runs are comparable when these are equal.
        questions: text of each question.
        types: type of each question.
        per_query: fractions for each answerable question: the library's measures, `stale@5`, `duplicates@5`,
            `packed_recall`, `irrelevant_tokens`, `retired`, `filled@10`, and for vectors and words 1.0 where they
            scored any result.
        results: the top results of every question.
        answered: how many answerable questions got a result at all.
        unanswerable: for each question without an answer, 1.0 where something was returned.
        current: for each question about a fact that changed, the share of its needs that a latest memory among the top
            five meets.
        retired: for each question about the present, the share of its needs that only retired memories could meet.
        precision: for each question with `MIN_BROAD` or more pieces of evidence, the share of the top five that is
            relevant.
        cited: quoted lines over all packed contexts.
        bad_citations: what is wrong with those that are not correct, one line each; any of them fails the gate.
        leaks: results outside the question's scope, or of no memory of the build, one line each.
        latency_ms: p50, p95, p99 of whole searches, warmed up; empty where nothing was searched.
        unhindered_ms: of each of these searches, milliseconds without what it waited for a processor.
        steps_ms: milliseconds of each step of the query path, a value a question.
        errors: why the questions could not be judged; any of them fails the gate.
        build_settings: what the build was made with, as `build_settings` gives it.
        drafts: ids of the questions that are still drafts of `gate --init`.
        follow_ups: ids of the questions that have turns before them.
        retracted: ids of the questions that are not judged since people deleted or edited what they need.
        misses: where the things that were missed got lost, the worst question first; None where nobody looked.
        answer_probability: of each question, that its results hold an answer; empty in runs of earlier versions.
        ragas: precision and recall of the top ten by RAGAS, by ids; empty where it is not installed.
        key: hash of what the run depends on; empty where nobody computed it.
    """

    collection: str
    build_id: str = ""
    golden_hash: str = ""
    model: str = ""
    commit: str = ""
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    per_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    results: Mapping[str, Sequence[Hit]] = field(default_factory=dict)
    answered: int = 0
    unanswerable: Mapping[str, float] = field(default_factory=dict)
    current: Mapping[str, float] = field(default_factory=dict)
    retired: Mapping[str, float] = field(default_factory=dict)
    precision: Mapping[str, float] = field(default_factory=dict)
    cited: int = 0
    bad_citations: Sequence[str] = ()
    leaks: Sequence[str] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    unhindered_ms: Sequence[float] = ()
    steps_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    errors: Sequence[str] = ()
    build_settings: Mapping[str, JsonValue] = field(default_factory=dict)
    drafts: Sequence[str] = ()
    follow_ups: Sequence[str] = ()
    retracted: Sequence[str] = ()
    misses: Sequence[Miss] | None = None
    answer_probability: Mapping[str, float] = field(default_factory=dict)
    ragas: Mapping[str, float] = field(default_factory=dict)
    key: str = ""

    @property
    def caught(self) -> dict[str, float]:
        """For each unanswerable question 1.0 where it could be turned away: see `caught_questions`."""
        return caught_questions(self.answer_probability, frozenset(self.unanswerable))

    @property
    def scores(self) -> Scores:
        """Per-query values and means.

        Raises:
            MetricError: nothing was judged, or a value is missing or not a number.
        """
        return summarise(self.per_query)

    @property
    def quality(self) -> dict[str, float]:
        """Fractions over the run that are not of the ranking; one that no question measures is left out.

        broad_P@5, current_fact_recall, false_retirement, duplicate_share, citation_validity, unanswerable_answered,
        follow_up_recall, abstention_recall; and `leaks`, a count.
        """
        duplicates = [v[DUPLICATES] for v in self.per_query.values() if DUPLICATES in v]
        shares = {
            BROAD_PRECISION: list(self.precision.values()),
            "current_fact_recall": list(self.current.values()),
            "false_retirement": list(self.retired.values()),
            "duplicate_share": duplicates,
            "citation_validity": [0.0] * len(self.bad_citations) + [1.0] * (self.cited - len(self.bad_citations)),
            "unanswerable_answered": list(self.unanswerable.values()),
            "follow_up_recall": [self.per_query[q][f"R@{TOP}"] for q in self.follow_ups if q in self.per_query],
            "abstention_recall": list(self.caught.values()),
        }
        means = {name: round(sum(values) / len(values), DIGITS) for name, values in shares.items() if values}
        return means | {"leaks": float(len(self.leaks))}

    @property
    def missed_questions(self) -> list[str]:
        """Ids of the questions that miss something among the top five or in the context, worst first."""
        keys = (f"R@{TOP}", "packed_recall", "nDCG@10")
        values = {q: tuple(v[k] for k in keys) for q, v in self.per_query.items() if min(v[keys[0]], v[keys[1]]) < 1.0}
        return sorted(values, key=lambda q: (values[q], q))

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "GoldenRun":
        """Returns the run that `to_json` gave; what an older version did not save has its default."""
        values = {f.name: raw[f.name] for f in fields(GoldenRun) if f.name in raw}
        lists = {
            name: tuple(raw.get(name, ()))
            for name in ("leaks", "errors", "bad_citations", "drafts", "follow_ups", "retracted")
        }
        results = {q: tuple(Hit(**h) for h in hits) for q, hits in raw.get("results", {}).items()}
        misses = None if raw.get("misses") is None else tuple(Miss(**m) for m in raw["misses"])
        return GoldenRun(**{**values, **lists, "results": results, "misses": misses})


def empty_run(golden: GoldenSet, settings: SearchSettings) -> GoldenRun:
    """Returns a run that knows its questions and settings, and has no results yet."""
    return GoldenRun(
        golden.collection,
        golden_hash=golden.hash,
        settings=settings.to_json(),
        questions={q.id: q.question for q in golden.questions},
        types={q.id: q.type for q in golden.questions},
        drafts=tuple(q.id for q in golden.questions if q.draft),
        follow_ups=tuple(q.id for q in golden.questions if q.turns),
    )


# Means of metrics for each type of question.

_REFERENCE_DAY = dt.date(2000, 7, 1)  # of relative dates; which day it is does not matter

PerQuery = Mapping[str, Mapping[str, float]]


def by_type(
    per_query: PerQuery, types: Mapping[str, str | None], measures: Collection[str] | None = None
) -> dict[str, dict[str, float]]:
    """Returns `queries` and the mean of each measure by type, in order of the types' names.

    Args:
        per_query: values of each query, all with the same measures.
        types: of each query; one that has none is left out.
        measures: names of the measures to return; None means all.
    """
    groups: dict[str, list[Mapping[str, float]]] = {}
    for query_id, values in per_query.items():
        if (kind := types.get(query_id)) is not None:
            groups.setdefault(kind, []).append(values)
    return {
        kind: {"queries": len(rows)}
        | {m: round(sum(r[m] for r in rows) / len(rows), 6) for m in (rows[0] if measures is None else measures)}
        for kind, rows in sorted(groups.items())
    }


def time_kind(question: str) -> str:
    """Returns how a question refers to time: `as of`, `range`, `since`, `until`, `in`, `relative` or `none`.

    `in` is one day, month or year; `relative` depends on a reference day, as `last week` and `3 March` do.
    """
    time = parse_question_time(question, _REFERENCE_DAY)
    if time.as_of is not None:
        return "as of"
    if time.period is None:
        return "none"
    if time.phrase:
        return "relative"
    if math.isinf(time.period[1]):
        return "since"
    if math.isinf(time.period[0]):
        return "until"
    return "range" if any(found.is_range for found in find_date_mentions(question)) else "in"


def types_text(means: Mapping[str, Mapping[str, float]], measures: Collection[str], heading: str = "type") -> list[str]:
    """Returns a line for each type, for people, under a line that names the measures; `heading` names the types."""
    width = max([len(kind) for kind in means] + [len(heading)]) + 2
    wide = {m: max(len(m) + 2, 15) for m in measures}
    lines = ["".join([f"{heading:{width}}{'queries':>9}", *(f"{m:>{wide[m]}}" for m in measures)])]
    return lines + [
        "".join([f"{kind:{width}}{values['queries']:>9.0f}", *(f"{values[m]:{wide[m]}.4f}" for m in measures)])
        for kind, values in means.items()
    ]


# Golden questions searched once in a build: what scores, misses and judges of contexts start from.


@dataclass(frozen=True)
class GoldenSearch:
    """Golden questions, the memories of a build that they need, and what searching them returned."""

    golden: GoldenSet
    resolved: Sequence[ResolvedQuestion]
    retrieval: RetrievalRun


def search_golden(
    reader: Searcher,
    golden: GoldenSet,
    tables: Tables,
    settings: SearchSettings | None = None,
    clock: Callable[[], float] = time.perf_counter,
    others: Searcher | None = None,
) -> GoldenSearch:
    """Searches every question once, inside its own scope.

    Args:
        reader: the build's reader.
        golden: the golden set.
        tables: documents, document_texts and memories of the build.
        settings: of the searches; None means the defaults.
        clock: seconds; tests replace it.
        others: see `search_queries`.

    Raises:
        GoldenError: a quote cannot be found in the build.
    """
    resolved = resolve(golden, tables)
    queries = [item.query(golden.collection) for item in resolved]
    return GoldenSearch(golden, resolved, search_queries(reader, queries, settings, clock=clock, others=others))


# Golden questions whose evidence people deleted or edited: that is no loss of retrieval, so they are not judged.


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
