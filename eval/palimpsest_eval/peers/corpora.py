"""The corpora that peers are measured on: suites, cut to whole scopes, and one for the times of builds."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonValue
from palimpsest.query.reader import open_home
from palimpsest.store.builds import published
from palimpsest_eval.golden.golden_run import search_golden
from palimpsest_eval.golden.questions import JUDGED_TABLES, UNANSWERABLE, GoldenSet
from palimpsest_eval.golden.resolve import ResolvedQuestion
from palimpsest_eval.metrics import json_rows
from palimpsest_eval.peers.job import CorpusFiles
from palimpsest_eval.peers.peer import Question, Text, write_lines
from palimpsest_eval.runs.suite_runs import golden_home, golden_set_of
from palimpsest_eval.suites.suite import CORPUS_FILE, Suite, load_suite

CHANGED_SHARE = 0.01


@dataclass(frozen=True)
class Corpus:
    """Texts, questions and the judgements of the questions.

    Attributes:
        name: its name.
        texts: the texts.
        questions: the questions.
        qrels: grades of texts by question.
    """

    name: str
    texts: Sequence[Text]
    questions: Sequence[Question]
    qrels: Mapping[str, Mapping[str, int]]


def timed_corpus(folder: Path, texts: int, max_questions: int) -> Corpus:
    """Returns the first texts of a suite, and questions in the scopes that these have.

    Raises:
        PalimpsestError: the suite is malformed.
    """
    whole = suite_corpus(folder, sys.maxsize, sys.maxsize)
    kept = whole.texts[:texts]
    scopes = {text.scope for text in kept}
    questions = [q for q in whole.questions if q.scope in scopes][:max_questions]
    return Corpus(whole.name, kept, questions, {})


def suite_corpus(folder: Path, max_texts: int, max_questions: int) -> Corpus:
    """Returns a suite, of which whole scopes are left out where it has more texts than `max_texts`.

    A suite without scopes is never cut: with fewer texts its questions would be easier. Scopes and questions are drawn
    by a hash of their ids, so every run draws the same.

    Raises:
        PalimpsestError: the suite is malformed, or not one scope fits.
    """
    suite = load_suite(folder)
    scopes = _scopes(suite, max_texts)
    texts = [row_text_of(row) for _, row in json_rows(folder / CORPUS_FILE) if suite.scopes[str(row["_id"])] in scopes]
    judged = [q for q in suite.judged if q.scope in scopes]
    if not judged:
        raise PalimpsestError(f"suite {suite.name}: no scope with a judged query has at most {max_texts} texts")
    drawn = sorted(judged, key=lambda q: _draw(q.query_id))[:max_questions]
    questions = [Question(q.query_id, q.scope or "", q.text) for q in drawn]
    return Corpus(suite.name, texts, questions, {q.query_id: dict(suite.qrels[q.query_id]) for q in questions})


def small_corpus(folder: Path, max_texts: int, max_questions: int) -> Corpus:
    """Returns a part of a suite for toolkits that need seconds for a text: questions of one scope and their texts.

    The texts are those that some question is judged to need, and others drawn by a hash: with fewer texts its questions
    are easier than the whole suite's.

    Raises:
        PalimpsestError: the suite is malformed.
    """
    whole = suite_corpus(folder, sys.maxsize, sys.maxsize)
    scope = whole.questions[0].scope
    texts = {text.text_id: text for text in whole.texts if text.scope == scope}
    kept: set[str] = set()
    questions: list[Question] = []
    for question in (q for q in whole.questions if q.scope == scope):
        needed = {text_id for text_id, grade in whole.qrels[question.query_id].items() if grade > 0}
        if len(questions) < max_questions and len(kept | needed) <= max_texts:
            kept |= needed
            questions.append(question)
    kept |= set(sorted(texts.keys() - kept, key=_draw)[: max_texts - len(kept)])
    return Corpus(
        f"{whole.name}, {len(kept)} texts",
        [text for text_id, text in texts.items() if text_id in kept],
        questions,
        {q.query_id: whole.qrels[q.query_id] for q in questions},
    )


def write_corpus(corpus: Corpus, folder: Path, *, is_timed: bool) -> CorpusFiles:
    """Writes a corpus for the processes of peers.

    Args:
        corpus: the corpus.
        folder: where to.
        is_timed: whether its builds are timed: then it has changed texts, and every text is embedded; else vectors are
            kept, and a peer is given those that another one needed.
    """
    folder.mkdir(parents=True)
    files = CorpusFiles(corpus.name, folder / "texts.jsonl", folder / "questions.jsonl")
    write_lines(files.texts, corpus.texts)
    write_lines(files.questions, corpus.questions)
    if not is_timed:
        return replace(files, vectors=folder / "vectors.npz")
    step = max(1, round(1 / CHANGED_SHARE))
    changed = [_changed(t, "Corrected once.") if i % step == 0 else t for i, t in enumerate(corpus.texts)]
    updated = [_changed(t, "Corrected twice.") for i, t in enumerate(corpus.texts) if i % step == step // 2]
    files = replace(files, changed=folder / "changed.jsonl", updated=folder / "updated.jsonl")
    assert files.changed is not None and files.updated is not None
    write_lines(files.changed, changed)
    write_lines(files.updated, updated)
    return files


def row_text_of(row: Mapping[str, JsonValue]) -> Text:
    """Returns a row of a suite as a text, with date and speaker in its words."""
    title, text = str(row.get("title") or ""), str(row.get("text") or "")
    meta = row.get("meta") or {}
    assert isinstance(meta, Mapping)
    words = f"{meta['speaker']}: {text}" if meta.get("speaker") else text
    words = f"[{meta['date_time']}] {words}" if meta.get("date_time") else words
    if title and not text.startswith(title):
        words = f"{title}\n{words}"
    return Text(str(row["_id"]), str(row.get("scope") or ""), words or title, row)


def _changed(text: Text, addition: str) -> Text:
    row = {**text.row, "text": f"{text.row.get('text', '')} {addition}"}
    return replace(text, words=f"{text.words} {addition}", row=row)


def _scopes(suite: Suite, max_texts: int) -> set[str | None]:
    sizes: dict[str | None, int] = {}
    for scope in suite.scopes.values():
        sizes[scope] = sizes.get(scope, 0) + 1
    if set(sizes) == {None}:
        return {None}
    judged = {q.scope for q in suite.judged}
    chosen: set[str | None] = set()
    left = max_texts
    for scope in sorted(sizes, key=lambda s: _draw(s or "")):
        if scope in judged and sizes[scope] <= left:
            chosen.add(scope)
            left -= sizes[scope]
    return chosen


def _draw(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


# The demo collections for peers: Palimpsest's memories as texts, and the golden questions that state what is stale.

TOP = 5


@dataclass(frozen=True)
class StaleScores:
    """Means over the questions of one collection; `recall` says that what is current was found, too."""

    questions: int
    stale: float
    recall: float


@dataclass(frozen=True)
class DemoCorpus:
    """One demo collection.

    Attributes:
        corpus: its memories, superseded ones too, and its questions about what changed; no qrels.
        resolved: the memories of each question.
        ours: what Palimpsest's search returned, by question.
    """

    corpus: Corpus
    resolved: Mapping[str, ResolvedQuestion]
    ours: Mapping[str, Sequence[str]]

    def score(self, ranked: Mapping[str, Sequence[str]]) -> StaleScores:
        """Scores rankings: a memory is stale where it has the words that a question's `stale` quotes, and no others.

        The gate also counts memories that the build retired. Here only what a person wrote down counts: other
        toolkits retire nothing, and our own retirements are no judgement of theirs.
        """
        stale = [len(set(ranked[q][:TOP]) & item.stale) / TOP for q, item in self.resolved.items()]
        recall = [item.recall(ranked[q], TOP) for q, item in self.resolved.items()]
        return StaleScores(len(stale), sum(stale) / len(stale), sum(recall) / len(recall))


def demo_corpus(golden: Path, cache: Path) -> DemoCorpus:
    """Returns a demo collection, built where its home is not up to date.

    Args:
        golden: the golden set of the collection.
        cache: folder of the homes.
    """
    home, _ = golden_home(golden, cache)
    build = published(home)
    assert build is not None
    tables = build.tables(JUDGED_TABLES)
    whole = golden_set_of(build, golden)
    with_stale = tuple(
        q for q in whole.questions if q.stale and q.as_of is None and q.type != UNANSWERABLE and not q.turns
    )
    with open_home(home.path, count_reads=False) as reader:
        search = search_golden(reader, GoldenSet(whole.collection, with_stale, whole.default_user), tables)
    columns = ("memory_id", "collection", "user_id", "observed_at", "speaker", "text")
    texts = [
        Text(memory_id, user, _words(observed, speaker, text))
        for memory_id, collection, user, observed, speaker, text in tables["memories"].select(columns).iter_rows()
        if collection == whole.collection
    ]
    questions = [Question(item.question.id, item.user_id, item.question.question) for item in search.resolved]
    return DemoCorpus(
        Corpus(whole.collection, texts, questions, {}),
        {item.question.id: item for item in search.resolved},
        {q: result.memory_ids for q, result in search.retrieval.results.items()},
    )


def _words(observed: object, speaker: str | None, text: str) -> str:
    words = f"{speaker}: {text}" if speaker else text
    return f"[{str(observed)[:10]}] {words}" if observed else words
