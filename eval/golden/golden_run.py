"""One run of the golden questions through the query path: what the gate judges."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import polars as pl

from palimpsest.core.progress import tracked
from palimpsest.core.scopes import GENERAL, SCOPE, scope_parts
from palimpsest.eval.golden.answers import Sources, check_citations, duplicate_share
from palimpsest.eval.golden.questions import GoldenError, Judged, Question, golden_hash, resolve
from palimpsest.eval.metrics.measures import Scores, evaluate, percentiles, summarise
from palimpsest.query.request.types import Scope

TOP = 5
STALE, DUPLICATES = f"stale@{TOP}", f"duplicates@{TOP}"
RETIRED = "retired"
# Whether any result of a question was scored by it: a part of the ranking that falls silent may cost little recall.
SIGNALS = {"vector_signal": "vector_score", "words_signal": "words_score"}
DEPTH = 10
# Of the results asked for, how many came: where the first five hold nearly all answers, no recall tells of the others.
FILLED = f"filled@{DEPTH}"
DIGITS = 9  # of a value: a baseline's file holds as many, so that an equal run compares as equal
BUDGET_TOKENS = 1200
LIBRARY_MEASURES = ("R@5", "R@10", "P@5", "Hit@5", "nDCG@10", "MRR@10")


class Searcher(Protocol):
    """The part of `palimpsest.query`'s Reader that evaluation uses."""

    @property
    def search(self) -> Callable[..., Any]:
        """Takes (text, scope, **filters); gives memories (id, uri, text, score, is_latest), packed_ids and context."""


@dataclass(frozen=True)
class Hit:
    """One of a question's top results, told by where it lies, so that two builds can be compared."""

    memory_id: str
    source: str
    relevant: bool = False
    stale: bool = False


@dataclass(frozen=True)
class GateRun:
    """What one collection's golden questions got from one build.

    Attributes:
        per_query: fractions for each answerable question: the library's measures, `stale@5`, `duplicates@5`,
            `packed_recall`, `retired`, `filled@10`, and for vectors and words 1.0 where they scored any result.
        current: for each question about a fact that changed, the share of its needs that a latest memory among the top
            five meets.
        retired: for each question asked of now, the share of its needs that only retired memories could meet.
        cited: lines quoted over all packed contexts.
        bad_citations: what is wrong with those that do not hold, one line each; any of them fails the gate.
        results: the top results of every question.
        answered: how many answerable questions got a result at all.
        unanswerable: for each question without an answer, 1.0 where something was returned.
        leaks: results outside the question's scope, or of no memory of the build, one line each.
        latency_ms: p50, p95, p99 of whole searches, warmed up; empty where nothing was asked.
        steps_ms: milliseconds of each step of the query path, a value a question.
        errors: why the questions could not be judged; any of them fails the gate.
        settings: strategy, budget_tokens, depth: two runs are comparable when these are equal.
        build_settings: what the build was made with, as `build_settings` gives it.
        drafts: ids of the questions that are still drafts of `gate --init`.
    """

    collection: str
    build_id: str = ""
    golden_hash: str = ""
    model: str = ""
    commit: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    per_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    results: Mapping[str, Sequence[Hit]] = field(default_factory=dict)
    answered: int = 0
    unanswerable: Mapping[str, float] = field(default_factory=dict)
    current: Mapping[str, float] = field(default_factory=dict)
    retired: Mapping[str, float] = field(default_factory=dict)
    cited: int = 0
    bad_citations: Sequence[str] = ()
    leaks: Sequence[str] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    steps_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    errors: Sequence[str] = ()
    build_settings: Mapping[str, Any] = field(default_factory=dict)
    drafts: Sequence[str] = ()

    @property
    def scores(self) -> Scores:
        """Per-query values and means.

        Raises:
            MetricError: nothing was judged, or a value is missing or not a number.
        """
        return summarise(self.per_query)

    @property
    def quality(self) -> dict[str, float]:
        """Fractions over the run beside the ranking's; one that nothing was asked for is left out.

        current_fact_recall, false_retirement, duplicate_share, citation_validity, unanswerable_answered; and `leaks`,
        a count.
        """
        duplicates = [v[DUPLICATES] for v in self.per_query.values() if DUPLICATES in v]
        told = {
            "current_fact_recall": list(self.current.values()),
            "false_retirement": list(self.retired.values()),
            "duplicate_share": duplicates,
            "citation_validity": [0.0] * len(self.bad_citations) + [1.0] * (self.cited - len(self.bad_citations)),
            "unanswerable_answered": list(self.unanswerable.values()),
        }
        shares = {name: round(sum(values) / len(values), DIGITS) for name, values in told.items() if values}
        return shares | {"leaks": float(len(self.leaks))}

    def to_json(self) -> dict[str, Any]:
        """Returns the run as JSON values, to be kept with its build."""
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "GateRun":
        """Returns the run that `to_json` told."""
        results = {q: tuple(Hit(**h) for h in hits) for q, hits in raw.get("results", {}).items()}
        lists = {name: tuple(raw.get(name, ())) for name in ("leaks", "errors", "bad_citations", "drafts")}
        return GateRun(**{**raw, **lists, "results": results})


def run_golden(
    reader: Searcher,
    questions: Sequence[Question],
    tables: Mapping[str, pl.DataFrame],
    collection: str,
    default_user: str,
    *,
    strategy: str = "auto",
    budget_tokens: int = BUDGET_TOKENS,
    depth: int = DEPTH,
    build_id: str = "",
    model: str = "",
    commit: str = "",
    build_settings: Mapping[str, Any] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> GateRun:
    """Asks every question inside its own scope and scores what came back.

    `stale@5` is the share of the top five that hold a `stale` quote or, unless the question is asked as of a date, are
    not latest. A quote that cannot be found becomes an error of the run, never a question that is left out.

    Args:
        reader: the build's reader.
        questions: the golden set, as `load_golden` gives it.
        tables: documents, document_texts, memories and versions of the build.
        collection: name of the collection.
        default_user: user of the questions that name none.
        strategy: strategy of the searches.
        budget_tokens: budget of the packed context.
        depth: results asked for; at least 10 for nDCG@10.
        build_id: of the build that is judged.
        model: id of the embedder.
        commit: of the code.
        build_settings: of the build; see `GateRun`.
        clock: seconds; tests replace it.
    """
    settings = {"strategy": strategy, "budget_tokens": budget_tokens, "depth": depth}
    told: dict[str, Any] = {
        "collection": collection,
        "build_id": build_id,
        "golden_hash": golden_hash(questions),
        "model": model,
        "commit": commit,
        "settings": settings,
        "questions": {q.id: q.question for q in questions},
        "types": {q.id: q.type for q in questions},
        "build_settings": dict(build_settings or {}),
        "drafts": tuple(q.id for q in questions if q.draft),
    }
    try:
        judged = resolve(questions, tables, collection, default_user)
    except GoldenError as e:
        return GateRun(**told, errors=(str(e),))
    known, sources = _Known(tables, collection), Sources(tables)
    filters: dict[str, Any] = {"k": depth, "strategy": strategy, "budget_tokens": budget_tokens}
    warmed: set[tuple[str, str | None]] = set()
    ranked: dict[str, list[tuple[str, float]]] = {}
    extra: dict[str, dict[str, float]] = {}
    results: dict[str, list[Hit]] = {}
    unanswerable, leaks, took_ms = {}, [], []
    current, retired, cited, bad_citations = {}, {}, 0, []
    steps_ms: dict[str, list[float]] = {}
    for item in tracked(judged, "ask", "questions"):
        question = item.question
        asked = filters | question.filters
        if (item.user_id, question.project) not in warmed:
            reader.search(question.question, Scope(collection, item.user_id), **asked)
            warmed.add((item.user_id, question.project))
        start = clock()
        found = reader.search(question.question, Scope(collection, item.user_id), **asked)
        took_ms.append((clock() - start) * 1000)
        for step, ms in found.timings.items():
            steps_ms.setdefault(step, []).append(round(ms, 3))
        memories, packed = list(found.memories), [str(i) for i in found.packed_ids]
        ids = [str(m.memory_id) for m in memories]
        leaks += [
            f"question {question.id!r}: {why}"
            for i in sorted({*ids, *packed})
            if (why := known.leak(i, item.user_id, question.project))
        ]
        results[question.id] = hits = [_hit(item, m, known) for m in memories[:TOP]]
        lines, wrong = check_citations(found.context, sources)
        cited += lines
        bad_citations += [f"question {question.id!r}: {why}" for why in wrong]
        if not question.answerable:
            unanswerable[question.id] = float(bool(ids))
            continue
        ranked[question.id] = [(name, 0.0) for name in item.collapse(ids)]
        extra[question.id] = {
            STALE: sum(h.stale for h in hits) / len(hits) if hits else 0.0,
            DUPLICATES: duplicate_share(memories, found.folded, TOP),
            "packed_recall": item.covered(packed, found.context),
            FILLED: len(memories) / DEPTH,
            **{name: float(any(getattr(m, score, 0.0) for m in memories)) for name, score in SIGNALS.items()},
        }
        # What is asked of a past day may be retired since.
        lost = sum(known.retired(ids) for ids in item.needs) / len(item.needs) if question.as_of is None else 0.0
        extra[question.id][RETIRED] = lost
        if question.as_of is None:
            retired[question.id] = lost
        if question.as_of is None and question.stale:
            latest = {str(m.memory_id) for m in memories[:TOP] if m.is_latest}
            current[question.id] = sum(bool(ids & latest) for ids in item.needs) / len(item.needs)
    qrels = {j.question.id: j.qrels() for j in judged if j.question.answerable}
    scores = evaluate(ranked, qrels, LIBRARY_MEASURES).per_query if qrels else {}
    return GateRun(
        **told,
        per_query={q: {m: round(v, DIGITS) for m, v in (values | extra[q]).items()} for q, values in scores.items()},
        results=results,
        answered=sum(bool(ranked[q]) for q in qrels),
        unanswerable=unanswerable,
        current=current,
        retired=retired,
        cited=cited,
        bad_citations=tuple(bad_citations),
        leaks=tuple(leaks),
        latency_ms=percentiles(took_ms) if took_ms else {},
        steps_ms=steps_ms,
    )


def _hit(item: Judged, memory: Any, known: "_Known") -> Hit:
    memory_id = str(memory.memory_id)
    outdated = item.question.as_of is None and not memory.is_latest
    relevant = any(memory_id in ids for ids in item.needs)
    return Hit(memory_id, known.source(memory_id), relevant, outdated or memory_id in item.stale)


class _Known:
    """Where each memory of the build lies."""

    def __init__(self, tables: Mapping[str, pl.DataFrame], collection: str):
        self._collection = collection
        rows = tables["memories"].join(tables["documents"].select("document_id", "uri"), on="document_id", how="left")
        columns = ("memory_id", *SCOPE, "uri", "char_start", "char_end")
        self._rows = {row[0]: row[1:] for row in rows.select(columns).iter_rows()}
        versions = tables.get("versions")
        self._retired = (
            frozenset() if versions is None else frozenset(versions.filter(~pl.col("is_latest"))["memory_id"])
        )

    def leak(self, memory_id: str, user_id: str, project: str | None) -> str | None:
        """Returns why the memory must not have been returned to this user, who searched in a project or in none."""
        if memory_id not in self._rows:
            return f"memory {memory_id} is not of this build"
        scope = self._rows[memory_id][: len(SCOPE)]
        if scope in {(self._collection, user_id, p) for p in (GENERAL, project or GENERAL)}:
            return None
        return f"memory {memory_id} belongs to {'/'.join(scope_parts(*scope))}"

    def retired(self, memory_ids: frozenset[str]) -> bool:
        """Returns whether every one of them was retired."""
        return memory_ids <= self._retired

    def source(self, memory_id: str) -> str:
        """Returns `uri:start-end`."""
        if memory_id not in self._rows:
            return "unknown"
        uri, start, end = self._rows[memory_id][len(SCOPE) :]
        return f"{uri}:{start}-{end}"
