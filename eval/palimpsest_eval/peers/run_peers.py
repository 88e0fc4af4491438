"""Measures Palimpsest and other toolkits in one run, on the same machine, texts, questions and embedder.

    make bench-peers
    python -m palimpsest_eval.peers.run_peers --suites FOLDER --venvs .venv-peers --out OUT [--peers txtai,palimpsest]

Writes OUT/peers.json and OUT/peers.md. docs/peers.md says how each is configured.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import say, write_json
from palimpsest_eval.metrics import Machine, this_machine
from palimpsest_eval.peers.corpora import (
    Corpus,
    DemoCorpus,
    demo_corpus,
    small_corpus,
    suite_corpus,
    timed_corpus,
    write_corpus,
)
from palimpsest_eval.peers.job import CorpusFiles, Phase
from palimpsest_eval.peers.peer_report import PeerReport, peer_report
from palimpsest_eval.peers.registry import CAPABILITIES, PeerInfo, find_peers
from palimpsest_eval.peers.run_job import JobRun, Workplace, run_job
from palimpsest_eval.peers.scripted_lm import scripted_lm

# The figures of all peers as Markdown tables.

_NONE = "-"


def markdown(reports: Sequence[PeerReport], machine: Machine) -> str:
    """Returns the tables: builds, searches, recall, stale memories, capabilities, and what failed."""
    sections = [
        f"{machine.cpu}, {machine.cpus} cores, load {machine.load_1min:.1f} at the start, Python {machine.python}; "
        "medians of the rounds.",
        _table(reports, _BUILD_COLUMNS),
        _table(reports, _SEARCH_COLUMNS),
        _table(reports, [(name, _recall(name)) for name in _names(reports, "recall")], "R@5"),
        _table(
            reports, [(name, _stale(name)) for name in _names(reports, "stale")], "stale@5 (R@5 of what is current)"
        ),
        _table(reports, [(name.replace("_", " "), _can(name)) for name in CAPABILITIES], "can"),
        *(_failures(reports)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


_Column = tuple[str, Callable[[PeerReport], str]]


def _table(reports: Sequence[PeerReport], columns: Sequence[_Column], corner: str = "") -> str:
    if not columns:
        return ""
    head = f"| {corner} | " + " | ".join(name for name, _ in columns) + " |"
    lines = [head, "|---" * (len(columns) + 1) + "|"]
    for report in reports:
        cells = (cell(report).replace("|", "\\|") for _, cell in columns)
        lines.append(f"| {report.info.name} {report.info.version} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate(report: PeerReport) -> str:
    phase = report.phases.get("build")
    return _NONE if phase is None else _number(report.texts / phase.seconds)


def _own_rate(report: PeerReport) -> str:
    phase = report.phases.get("build")
    own = phase.seconds - phase.embedding_s if phase else 0.0
    return _number(report.texts / own) if own > 0 else _NONE


def _lm(report: PeerReport) -> str:
    use = report.lm
    return f"{use.calls} ({use.words_in}/{use.words_out} words)" if use.calls else "0"


def _embedded(report: PeerReport) -> str:
    return "/".join(str(p.embedded) for p in report.phases.values() if not p.unsupported)


def _disk(report: PeerReport) -> str:
    parts = [_number(mb) for mb in (report.disk_mb, report.server_disk_mb) if mb is not None]
    return " + ".join(parts) or _NONE


def _phase(name: str) -> Callable[[PeerReport], str]:
    def cell(report: PeerReport) -> str:
        phase: Phase | None = report.phases.get(name)
        if phase is None:
            return _NONE
        return "no" if phase.unsupported else f"{phase.seconds:.2f}"

    return cell


_BUILD_COLUMNS: list[_Column] = [
    ("texts x rounds", lambda report: f"{report.texts} x {report.rounds}"),
    ("texts/s", _rate),
    ("without embedding", _own_rate),
    ("unchanged again, s", _phase("rebuild_same")),
    ("1 % changed, s", _phase("rebuild_changed")),
    ("1 % named by the caller, s", _phase("update")),
    ("embedded", _embedded),
    ("LM calls", _lm),
]
_SEARCH_COLUMNS: list[_Column] = [
    ("p95, ms", lambda report: _number(report.p95_ms)),
    ("without embedding", lambda report: _number(report.p95_own_ms)),
    ("disk (own files + server's), MB", _disk),
    ("peak memory, MB", lambda report: _number(report.peak_mb)),
    ("server's, MB", lambda report: _number(report.server_peak_mb)),
]


def _recall(suite: str) -> Callable[[PeerReport], str]:
    return lambda report: f"{report.recall[suite]:.3f}" if suite in report.recall else _NONE


def _stale(collection: str) -> Callable[[PeerReport], str]:
    def cell(report: PeerReport) -> str:
        scores = report.stale.get(collection)
        return f"{scores.stale:.3f} ({scores.recall:.3f})" if scores else _NONE

    return cell


def _can(name: str) -> Callable[[PeerReport], str]:
    return lambda report: report.info.can.get(name, "no")


def _names(reports: Sequence[PeerReport], field: str) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in getattr(report, field)))


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _failures(reports: Sequence[PeerReport]) -> list[str]:
    """Returns what failed, and which operations a peer lacks."""
    lines = [f"- {r.info.name}: {error}" for r in reports for error in r.errors]
    lines += [
        f"- {r.info.name}, {name.replace('_', ' ')}: {phase.unsupported}"
        for r in reports
        for name, phase in r.phases.items()
        if phase.unsupported
    ]
    return ["What was not measured, and why:", "\n".join(lines)] if lines else []


SUITES = ("musique200", "hotpot200", "locomo", "timeqa_human", "codebase_chunks")
TIMED = "locomo"
DEMO = ("atlas", "diary")
SMALL = ("hotpot200", "locomo")
"""Suites of which a small part is measured with every toolkit, those that call a language model included."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        memories: texts whose builds are timed.
        rounds: how often; medians are reported.
        suite_texts: texts of a suite with scopes.
        questions: questions of a suite.
        lm_memories: texts whose builds are timed once, of a toolkit that calls a language model.
        small_texts: texts of the small parts of suites.
        limit_s: seconds of one process that times builds.
        suites_limit_s: seconds of one process that builds and searches all suites.
        minutes: of the whole run, after the corpora are read: a process is ended when they are over.
    """

    memories: int = 2000
    rounds: int = 3
    suite_texts: int = 1500
    questions: int = 200
    lm_memories: int = 100
    small_texts: int = 100
    limit_s: float = 240.0
    suites_limit_s: float = 420.0
    minutes: float = 42.0


@dataclass(frozen=True)
class Corpora:
    """All that is measured: one corpus for times, suites and demo collections for what is found.

    `lm_timed` and `small` are what a toolkit that calls a language model is measured on, instead.
    """

    timed: Corpus
    suites: Sequence[Corpus] = ()
    demo: Sequence[DemoCorpus] = ()
    lm_timed: Corpus | None = None
    small: Sequence[Corpus] = ()


@dataclass
class Runs:
    """The processes of one peer."""

    timed: list[JobRun] = field(default_factory=list)
    judged: JobRun | None = None


def read_corpora(suites: Path, names: Sequence[str], golden: Path, cache: Path, sizes: Sizes) -> Corpora:
    """Reads the suites, of which `names` are judged whole, and builds the demo collections.

    Raises:
        PalimpsestError: a suite is missing or malformed.
    """
    if not suites.is_dir():
        raise PalimpsestError(f"--suites {suites}: no such folder; set PALIMPSEST_SUITES to a folder of suites")
    timed = timed_corpus(suites / TIMED, sizes.memories, sizes.questions)
    judged = [suite_corpus(suites / name, sizes.suite_texts, sizes.questions) for name in names]
    demo = [demo_corpus(golden / f"{name}.jsonl", cache) for name in DEMO]
    lm_timed = timed_corpus(suites / TIMED, sizes.lm_memories, sizes.questions)
    small = [small_corpus(suites / name, sizes.small_texts, sizes.questions) for name in SMALL]
    return Corpora(timed, judged, demo, lm_timed, small)


def measure_peers(peers: Sequence[PeerInfo], corpora: Corpora, place: Workplace, sizes: Sizes) -> list[PeerReport]:
    """Runs every peer and returns its figures, in the order of the peers.

    Builds are timed in rounds, each peer once a round, the order reversed from round to round: a machine that gets
    slower or faster does so for all. Suites come after the first round, and a round that does not fit into the time
    that is left is not begun.
    """
    files = _write_corpora(corpora, place.folder / "corpora")
    runs = {peer.name: Runs() for peer in peers}
    clock = _Clock(sizes.minutes)

    def run(peer: PeerInfo, part: str, names: tuple[CorpusFiles, ...], limit_s: float, *, stores: bool) -> JobRun:
        limit_s = max(1.0, min(limit_s, clock.left_s()))
        done = run_job(peer, names, place, f"{peer.name}-{part}", limit_s, measures_store=stores)
        say(f"{part}: {peer.name}: {done.result.error or 'done'}, {clock.used_s() / 60:.1f} minutes since the start")
        return done

    def time_builds(number: int) -> None:
        for peer in peers if number % 2 == 1 else reversed(peers):
            if not peer.needs_lm or number == 1:
                timed = files.lm_timed if peer.needs_lm else files.timed
                runs[peer.name].timed.append(run(peer, f"round-{number}", timed, sizes.limit_s, stores=number == 1))

    time_builds(1)
    round_s = clock.used_s()
    for peer in peers:
        if peer.is_judged:
            runs[peer.name].judged = run(peer, "suites", files.judged(peer), sizes.suites_limit_s, stores=False)
    for number in range(2, sizes.rounds + 1):
        if clock.left_s() < round_s:
            say(f"round {number} is not begun: {sizes.minutes:.0f} minutes would not be enough")
            break
        time_builds(number)
    return [peer_report(peer, runs[peer.name].timed, runs[peer.name].judged, corpora) for peer in peers]


class _Clock:
    """The time of a run."""

    def __init__(self, minutes: float):
        self._started, self._minutes = time.monotonic(), minutes

    def used_s(self) -> float:
        return time.monotonic() - self._started

    def left_s(self) -> float:
        return self._minutes * 60 - self.used_s()


@dataclass(frozen=True)
class _Files:
    """The corpora as files."""

    timed: tuple[CorpusFiles, ...]
    lm_timed: tuple[CorpusFiles, ...]
    small: tuple[CorpusFiles, ...]
    suites: tuple[CorpusFiles, ...]
    demo: tuple[CorpusFiles, ...]

    def judged(self, peer: PeerInfo) -> tuple[CorpusFiles, ...]:
        """Returns what a peer is judged on; ours searched its own homes of the demo already."""
        if peer.needs_lm:
            return self.small
        return (*self.small, *self.suites, *(self.demo if peer.venv else ()))


def _write_corpora(corpora: Corpora, folder: Path) -> _Files:
    def write(part: str, items: Sequence[Corpus], *, is_timed: bool) -> tuple[CorpusFiles, ...]:
        return tuple(write_corpus(item, folder / part / item.name, is_timed=is_timed) for item in items)

    return _Files(
        write("timed", [corpora.timed], is_timed=True),
        write("lm_timed", [corpora.lm_timed] if corpora.lm_timed else [], is_timed=True),
        write("small", corpora.small, is_timed=False),
        write("suites", corpora.suites, is_timed=False),
        write("demo", [demo.corpus for demo in corpora.demo], is_timed=False),
    )


def write_report(out: Path, reports: Sequence[PeerReport], sizes: Sizes, machine: Machine) -> str:
    """Writes `peers.json` and `peers.md` below a folder; returns the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    text = markdown(reports, machine)
    write_json(
        out / "peers.json",
        {"machine": machine.to_json(), "sizes": vars(sizes), "peers": [report.to_json() for report in reports]},
    )
    (out / "peers.md").write_text(text, encoding="utf-8")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the options, measures, and prints the table.

    Raises:
        SystemExit: an option is wrong, with exit code 2.
    """
    args = _parser().parse_args(arguments)
    sizes = Sizes(
        args.memories,
        args.rounds,
        args.suite_texts,
        args.questions,
        args.lm_memories,
        args.small_texts,
        args.limit,
        args.suites_limit,
        args.minutes,
    )
    try:
        sys.stdout.write(_measure(args, sizes))
    except PalimpsestError as e:
        sys.stderr.write(f"error: {e}\n")
        raise SystemExit(2) from None


def _measure(args: argparse.Namespace, sizes: Sizes) -> str:
    from palimpsest.neo4j_graph.local_server import remove_server
    from palimpsest.store.home import data_folder
    from palimpsest_eval.runs.suite_runs import cache_folder

    peers, machine = find_peers(args.peers), this_machine()
    names = [name for name in args.judged.split(",") if name]
    corpora = read_corpora(args.suites, names, data_folder() / "golden", cache_folder(), sizes)
    folder = Path(tempfile.mkdtemp(prefix="palimpsest-peers-"))
    server = folder / "server" if any(peer.needs_neo4j for peer in peers) else None
    try:
        with scripted_lm() as lm:
            place = Workplace(folder, args.venvs.resolve(), server, lm)
            return write_report(args.out, measure_peers(peers, corpora, place, sizes), sizes, machine)
    finally:
        if server is not None:
            remove_server(server)
        if args.keep:
            say(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    sizes = Sizes()
    suites = Path(os.environ.get("PALIMPSEST_SUITES", "../shared/suites"))
    parser.add_argument("--suites", type=Path, default=suites, help="folder of suites (PALIMPSEST_SUITES)")
    parser.add_argument("--venvs", type=Path, default=Path(".venv-peers"), help="folder of the peers' environments")
    parser.add_argument("--out", type=Path, required=True, help="folder of peers.md and peers.json")
    parser.add_argument("--peers", help="names, separated by commas; all without it")
    parser.add_argument("--judged", default=",".join(SUITES), help="suites that are judged, separated by commas")
    parser.add_argument("--memories", type=int, default=sizes.memories, help="texts whose builds are timed")
    parser.add_argument("--rounds", type=int, default=sizes.rounds, help="how often; medians are reported")
    parser.add_argument("--suite-texts", type=int, default=sizes.suite_texts, help="texts of a suite with scopes")
    parser.add_argument("--questions", type=int, default=sizes.questions, help="questions of a suite")
    parser.add_argument("--lm-memories", type=int, default=sizes.lm_memories, help="the same of toolkits with an LM")
    parser.add_argument("--small-texts", type=int, default=sizes.small_texts, help="texts of small parts of suites")
    parser.add_argument("--limit", type=float, default=sizes.limit_s, help="seconds of one timed process")
    parser.add_argument("--suites-limit", type=float, default=sizes.suites_limit_s, help="seconds of all suites")
    parser.add_argument("--minutes", type=float, default=sizes.minutes, help="of the whole run")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the processes and their logs")
    return parser


if __name__ == "__main__":
    main()
