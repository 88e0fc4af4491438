"""The process of one peer: builds and searches the corpora of a job, and times it.

    PYTHON_OF_THE_PEER -m palimpsest_eval.peers.peer_process JOB.json RESULT.json

The result is written after every step, so that a process that is ended at its time limit leaves what it had done.
"""

import importlib
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from palimpsest_eval.peers.embedding import CountedEmbedder, set_environment
from palimpsest_eval.peers.job import CorpusFiles, CorpusResult, Job, JobResult, Phase, read_job
from palimpsest_eval.peers.peer import Peer, Setting, Unsupported, read_questions, read_texts

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
