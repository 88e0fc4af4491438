"""The demo collections for peers: Palimpsest's memories as texts, and the golden questions that state what is stale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palimpsest.query.reader import open_home
from palimpsest.store.builds import published
from palimpsest_eval.golden.golden_run import search_golden
from palimpsest_eval.golden.questions import JUDGED_TABLES, UNANSWERABLE, GoldenSet
from palimpsest_eval.golden.resolve import ResolvedQuestion
from palimpsest_eval.peers.corpora import Corpus
from palimpsest_eval.peers.peer import Question, Text
from palimpsest_eval.runs.suite_runs import golden_home, golden_set_of

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
