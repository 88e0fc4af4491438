"""What a peer's process is given, and what it writes: one JSON file each."""

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from palimpsest_eval.peers.embedding import CountedEmbedder, set_environment
from palimpsest_eval.peers.peer import Neo4jLogin, Peer, Setting, Unsupported, read_questions, read_texts


@dataclass(frozen=True)
class CorpusFiles:
    """A corpus as files that `write_lines` wrote.

    Attributes:
        name: its name.
        texts: all texts.
        questions: what is searched.
        changed: all texts again, some of them with other words; None where nothing is built again.
        updated: some texts with other words again, and no others.
        vectors: a cache of vectors; None where the embedder works for every text.
    """

    name: str
    texts: Path
    questions: Path
    changed: Path | None = None
    updated: Path | None = None
    vectors: Path | None = None


@dataclass(frozen=True)
class Job:
    """The corpora that one process of a peer builds and searches, one after the other.

    Attributes:
        module: module of the peer, with `open_peer`.
        folder: where it stores things.
        corpora: the corpora.
        depth: results of a question.
        neo4j: the server.
        lm_url: the scripted language model.
    """

    module: str
    folder: Path
    corpora: tuple[CorpusFiles, ...]
    depth: int = 10
    neo4j: Neo4jLogin | None = None
    lm_url: str | None = None

    def write(self, path: Path) -> None:
        """Writes the job as JSON that only its owner can read: it has the server's password."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), default=str), encoding="utf-8")


def read_job(path: Path) -> Job:
    """Reads what `Job.write` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    corpora = tuple(map(_corpus_files, found["corpora"]))
    login = found["neo4j"] and Neo4jLogin(**found["neo4j"])
    return Job(found["module"], Path(found["folder"]), corpora, found["depth"], login, found["lm_url"])


def _corpus_files(found: Mapping[str, str | None]) -> CorpusFiles:
    def path(name: str) -> Path | None:
        return Path(value) if (value := found[name]) else None

    texts, questions = Path(str(found["texts"])), Path(str(found["questions"]))
    return CorpusFiles(str(found["name"]), texts, questions, path("changed"), path("updated"), path("vectors"))


@dataclass(frozen=True)
class Phase:
    """One timed operation of a peer.

    Attributes:
        seconds: wall time.
        embedding_s: seconds of it in the embedder.
        embedded: texts that were embedded.
        unsupported: why the peer has no such operation; nothing was timed then.
    """

    seconds: float = 0.0
    embedding_s: float = 0.0
    embedded: int = 0
    unsupported: str | None = None


@dataclass(frozen=True)
class CorpusResult:
    """What a peer did with one corpus.

    Attributes:
        name: the corpus.
        texts: how many it has.
        phases: `build`, `rebuild_same`, `rebuild_changed`, `update`.
        ranked: ids of texts by question, best first.
        ms: milliseconds of each search, in the order of the questions.
        embedding_ms: of them in the embedder, in the same order.
        bytes_on_disk: after the last phase; None where a server stores the texts.
        error: why the peer did not get to the end; what it did before is kept.
    """

    name: str
    texts: int
    phases: Mapping[str, Phase] = field(default_factory=dict)
    ranked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ms: Sequence[float] = ()
    embedding_ms: Sequence[float] = ()
    bytes_on_disk: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class JobResult:
    """What a peer's process did.

    Attributes:
        corpora: by name.
        peak_mb: the most memory that the process had.
        error: why the peer could not be opened, or what ended its process.
    """

    corpora: Mapping[str, CorpusResult] = field(default_factory=dict)
    peak_mb: float = 0.0
    error: str | None = None

    def write(self, path: Path) -> None:
        """Writes the result as JSON, all of it or nothing."""
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps(asdict(self)), encoding="utf-8")
        aside.replace(path)


def read_result(path: Path) -> JobResult:
    """Reads what `JobResult.write` wrote; an empty result where there is no such file."""
    if not path.exists():
        return JobResult()
    found = json.loads(path.read_text(encoding="utf-8"))
    corpora = {
        name: CorpusResult(**{**c, "phases": {k: Phase(**p) for k, p in c["phases"].items()}})
        for name, c in found["corpora"].items()
    }
    return JobResult(corpora, found["peak_mb"], found["error"])


# The process of one peer: builds and searches the corpora of a job, and times it.
#
#     PYTHON_OF_THE_PEER -m palimpsest_eval.peers.job JOB.json RESULT.json
#
# The result is written after every step, so that a process that is ended at its time limit leaves what it had done.

Report = Callable[[CorpusResult], None]


def run_job(job: Job, out: Path) -> None:
    """Builds and searches each corpus; a failure of the peer is written down and ends its corpus only."""
    result = JobResult()

    def report(corpus: CorpusResult) -> None:
        nonlocal result
        result = replace(result, corpora={**result.corpora, corpus.name: corpus}, peak_mb=_peak_mb())
        result.write(out)

    for number, files in enumerate(job.corpora):
        folder = job.folder / str(number)
        folder.mkdir(parents=True)
        embedder = CountedEmbedder(files.vectors)
        setting = Setting(folder, embedder, job.neo4j, job.lm_url)
        _run_corpus(job, files, setting, report)
        embedder.save()


def _run_corpus(job: Job, files: CorpusFiles, setting: Setting, report: Report) -> None:
    texts = read_texts(files.texts)
    result = CorpusResult(files.name, len(texts))
    report(result)
    try:
        peer: Peer = importlib.import_module(job.module).open_peer(setting)
        peer.warm_up()
    except Exception:
        report(replace(result, error=_last_error()))
        return

    def timed(name: str, operation: Callable[[], None]) -> None:
        nonlocal result
        result = replace(result, phases={**result.phases, name: _timed(peer, operation)})
        report(result)

    try:
        timed("build", lambda: peer.build(texts))
        setting.embedder.save()
        result = _search(peer, files, job.depth, result)
        report(result)
        if files.changed is not None and files.updated is not None:
            changed, updated = read_texts(files.changed), read_texts(files.updated)
            timed("rebuild_same", lambda: peer.rebuild(texts))
            timed("rebuild_changed", lambda: peer.rebuild(changed))
            timed("update", lambda: peer.update(updated))
        result = replace(result, bytes_on_disk=peer.bytes_on_disk())
        report(result)
    except Exception:
        report(replace(result, error=_last_error()))
    finally:
        peer.close()


def _timed(peer: Peer, operation: Callable[[], None]) -> Phase:
    before, started = peer.embedding(), time.perf_counter()
    try:
        operation()
    except Unsupported as e:
        return Phase(unsupported=str(e))
    seconds, work = time.perf_counter() - started, peer.embedding().since(before)
    return Phase(seconds, work.seconds, work.texts)


def _search(peer: Peer, files: CorpusFiles, depth: int, result: CorpusResult) -> CorpusResult:
    """Searches every question once; the first one is searched before, untimed."""
    questions = read_questions(files.questions)
    ranked, ms, embedding_ms = {}, [], []
    for question in questions[:1]:
        peer.search(question, depth)
    for question in questions:
        phase_ids: list[str] = []
        phase = _timed(peer, lambda q=question, ids=phase_ids: ids.extend(peer.search(q, depth)))  # type: ignore[misc]
        ranked[question.query_id] = phase_ids
        ms.append(phase.seconds * 1000)
        embedding_ms.append(phase.embedding_s * 1000)
    return replace(result, ranked=ranked, ms=ms, embedding_ms=embedding_ms)


def _last_error() -> str:
    """Returns the type and message of the current exception, and where it was raised."""
    kind, error, trace = sys.exc_info()
    place = traceback.extract_tb(trace)[-1]
    name = kind.__name__ if kind else "error"
    return f"{name}: {' '.join(str(error).split())[:300]} ({Path(place.filename).name} line {place.lineno})"


def _peak_mb() -> float:
    """Returns the most resident memory of this process so far, in MiB.

    Where there is /proc, its figure is taken: that of getrusage has the memory of the process that started this one.
    """
    import resource

    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    set_environment()
    run_job(read_job(Path(sys.argv[1])), Path(sys.argv[2]))
