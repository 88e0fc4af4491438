"""What a peer's process is given, and what it writes: one JSON file each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from palimpsest_eval.peers.peer import Neo4jLogin


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
