"""The figures of one peer: medians of its timed rounds, recall on the suites, stale memories on the demo."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from palimpsest.core.ids import JsonObject
from palimpsest_eval.metrics import evaluate, percentiles
from palimpsest_eval.peers.corpora import Corpus, DemoCorpus, StaleScores
from palimpsest_eval.peers.job import CorpusResult, Phase
from palimpsest_eval.peers.registry import PeerInfo
from palimpsest_eval.peers.run_job import JobRun, LMUse

MEASURE = "R@5"
PHASES = ("build", "rebuild_same", "rebuild_changed", "update")


class Judged(Protocol):
    """The corpora that were measured."""

    @property
    def timed(self) -> Corpus:
        """The corpus whose builds were timed."""

    @property
    def suites(self) -> Sequence[Corpus]:
        """The suites."""

    @property
    def small(self) -> Sequence[Corpus]:
        """Small parts of suites, which every peer is measured on."""

    @property
    def demo(self) -> Sequence[DemoCorpus]:
        """The demo collections."""


@dataclass(frozen=True)
class PeerReport:
    """What one peer reached; None is what was not measured, and `errors` says why.

    Attributes:
        info: the peer.
        texts: texts of the timed builds.
        rounds: timed rounds that were finished.
        phases: medians by phase.
        p95_ms: of a search in the timed corpus, its embedding included; the median of the rounds.
        p95_own_ms: the same without the time in the embedder.
        disk_mb: after the timed builds.
        peak_mb: of the process of the timed builds.
        server_peak_mb: of the Neo4j server in the meantime.
        server_disk_mb: what the Neo4j server's store grew by, in the first round.
        lm: calls and words of the timed builds and their searches, of one round.
        recall: R@5 by suite.
        stale: by demo collection.
        errors: one line each.
    """

    info: PeerInfo
    texts: int
    rounds: int
    phases: Mapping[str, Phase]
    p95_ms: float | None
    p95_own_ms: float | None
    disk_mb: float | None
    peak_mb: float | None
    server_peak_mb: float | None
    server_disk_mb: float | None
    lm: LMUse
    recall: Mapping[str, float]
    stale: Mapping[str, StaleScores]
    errors: Sequence[str]

    def to_json(self) -> JsonObject:
        """Returns the figures as JSON values."""
        values = asdict(self)
        return values | {"info": values["info"] | {"version": self.info.version}}


def peer_report(info: PeerInfo, timed: Sequence[JobRun], judged: JobRun | None, corpora: Judged) -> PeerReport:
    """Returns the figures of a peer's processes; nothing that failed is replaced by a number."""
    done = [c for run in timed if (c := run.result.corpora.get(corpora.timed.name))]
    searched = [c for c in done if c.ms]
    own = [[all_ms - emb for all_ms, emb in zip(c.ms, c.embedding_ms, strict=True)] for c in searched]
    found = judged.result.corpora if judged else {}
    return PeerReport(
        info,
        max((c.texts for c in done), default=0),
        len(searched),
        {
            name: median
            for name in PHASES
            if (median := _median_phase([c.phases[name] for c in done if name in c.phases]))
        },
        _median([percentiles(c.ms)["p95"] for c in searched]),
        _median([percentiles(ms)["p95"] for ms in own]),
        _median([c.bytes_on_disk / 2**20 for c in done if c.bytes_on_disk is not None]),
        _median([run.result.peak_mb for run in timed if run.result.peak_mb]),
        _median([run.server_peak_mb for run in timed if run.server_peak_mb]),
        next((run.server_disk_mb for run in timed if run.server_disk_mb is not None), None),
        max((run.lm for run in timed), key=lambda use: use.calls, default=LMUse()),
        {
            corpus.name: _recall(corpus, found[corpus.name])
            for corpus in (*corpora.suites, *corpora.small)
            if _complete(corpus, found)
        },
        {
            demo.corpus.name: demo.score(_demo_rankings(info, demo, found))
            for demo in corpora.demo
            if not info.venv or _complete(demo.corpus, found)
        },
        _errors([*timed, *([judged] if judged else [])]),
    )


def _demo_rankings(info: PeerInfo, demo: DemoCorpus, found: Mapping[str, CorpusResult]) -> Mapping[str, Sequence[str]]:
    """Returns what was found in a demo collection: Palimpsest's in its own home, built from the sources."""
    return found[demo.corpus.name].ranked if info.venv else demo.ours


def _complete(corpus: Corpus, found: Mapping[str, CorpusResult]) -> bool:
    result = found.get(corpus.name)
    return result is not None and len(result.ranked) == len(corpus.questions) > 0


def _recall(corpus: Corpus, result: CorpusResult) -> float:
    run = {q: [(text_id, 0.0) for text_id in dict.fromkeys(ids)] for q, ids in result.ranked.items()}
    return evaluate(run, corpus.qrels, (MEASURE,)).mean[MEASURE]


def _median_phase(phases: Sequence[Phase]) -> Phase | None:
    if not phases:
        return None
    if phases[0].unsupported:
        return phases[0]
    return Phase(
        statistics.median(p.seconds for p in phases),
        statistics.median(p.embedding_s for p in phases),
        max(p.embedded for p in phases),
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _errors(runs: Sequence[JobRun]) -> list[str]:
    """Returns each error once."""
    lines = [run.result.error for run in runs]
    lines += [f"{c.name}: {c.error}" for run in runs for c in run.result.corpora.values() if c.error]
    return list(dict.fromkeys(line for line in lines if line))
