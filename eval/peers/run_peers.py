"""Measures Palimpsest and other toolkits in one run, on the same machine, texts, questions and embedder.

    make bench-peers
    python -m palimpsest.eval.peers.run_peers --suites FOLDER --venvs .venv-peers --out OUT [--peers txtai,palimpsest]

Writes OUT/peers.json and OUT/peers.md. docs/peers.md says how each is configured.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.core.progress import say
from palimpsest.eval.metrics.latency import Machine, this_machine
from palimpsest.eval.peers.corpora import Corpus, suite_corpus, timed_corpus, write_corpus
from palimpsest.eval.peers.demo_corpus import DemoCorpus, demo_corpus
from palimpsest.eval.peers.peer_report import PeerReport, peer_report
from palimpsest.eval.peers.peer_table import markdown
from palimpsest.eval.peers.registry import PeerInfo, find_peers
from palimpsest.eval.peers.run_job import JobRun, Workplace, run_job
from palimpsest.eval.peers.scripted_lm import scripted_lm

SUITES = ("musique200", "hotpot200", "locomo", "timeqa_human", "codebase_chunks")
TIMED = "locomo"
DEMO = ("atlas", "diary")


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        memories: texts whose builds are timed.
        rounds: how often; medians are reported.
        suite_texts: texts of a suite with scopes.
        questions: questions of a suite.
        limit_s: seconds of one process that times builds.
        suites_limit_s: seconds of one process that builds and searches all suites.
    """

    memories: int = 2000
    rounds: int = 3
    suite_texts: int = 2500
    questions: int = 200
    limit_s: float = 150.0
    suites_limit_s: float = 600.0


@dataclass(frozen=True)
class Corpora:
    """All that is measured: one corpus for times, suites and demo collections for what is found."""

    timed: Corpus
    suites: Sequence[Corpus] = ()
    demo: Sequence[DemoCorpus] = ()


@dataclass
class Runs:
    """The processes of one peer."""

    timed: list[JobRun] = field(default_factory=list)
    judged: JobRun | None = None


def read_corpora(suites: Path, golden: Path, cache: Path, sizes: Sizes) -> Corpora:
    """Reads the suites and builds the demo collections.

    Raises:
        PalimpsestError: a suite is missing or malformed.
    """
    if not suites.is_dir():
        raise PalimpsestError(f"--suites {suites}: no such folder; set PALIMPSEST_SUITES to a folder of suites")
    timed = timed_corpus(suites / TIMED, sizes.memories, sizes.questions)
    judged = [suite_corpus(suites / name, sizes.suite_texts, sizes.questions) for name in SUITES]
    return Corpora(timed, judged, [demo_corpus(golden / f"{name}.jsonl", cache) for name in DEMO])


def measure_peers(peers: Sequence[PeerInfo], corpora: Corpora, place: Workplace, sizes: Sizes) -> list[PeerReport]:
    """Runs every peer and returns its figures, in the order of the peers.

    Builds are timed in rounds, each peer once a round, the order reversed from round to round: a machine that gets
    slower or faster does so for all.
    """
    files = place.folder / "corpora"
    timed = write_corpus(corpora.timed, files / "timed", is_timed=True)
    suites = tuple(write_corpus(corpus, files / corpus.name, is_timed=False) for corpus in corpora.suites)
    demo = tuple(write_corpus(demo.corpus, files / demo.corpus.name, is_timed=False) for demo in corpora.demo)
    runs = {peer.name: Runs() for peer in peers}
    for number in range(sizes.rounds):
        for peer in peers if number % 2 == 0 else reversed(peers):
            say(f"round {number + 1}: {peer.name}")
            run = run_job(peer, (timed,), place, f"{peer.name}-{number}", sizes.limit_s)
            runs[peer.name].timed.append(run)
    for peer in peers:
        if not peer.is_judged:
            continue
        say(f"suites: {peer.name}")
        judged = (*suites, *demo) if peer.venv else suites  # ours searched its own homes of the demo
        runs[peer.name].judged = run_job(peer, judged, place, f"{peer.name}-suites", sizes.suites_limit_s)
    return [peer_report(peer, runs[peer.name].timed, runs[peer.name].judged, corpora) for peer in peers]


def write_report(out: Path, reports: Sequence[PeerReport], sizes: Sizes, machine: Machine) -> str:
    """Writes `peers.json` and `peers.md` below a folder; returns the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    text = markdown(reports, sizes.memories, sizes.rounds, machine)
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
    sizes = Sizes(args.memories, args.rounds, args.suite_texts, args.questions, args.limit, args.suites_limit)
    try:
        sys.stdout.write(_measure(args, sizes))
    except PalimpsestError as e:
        sys.stderr.write(f"error: {e}\n")
        raise SystemExit(2) from None


def _measure(args: argparse.Namespace, sizes: Sizes) -> str:
    from palimpsest.eval.runs.suite_runs import cache_folder
    from palimpsest.neo4j_graph.server.local_server import remove_server
    from palimpsest.store.home import data_folder

    peers, machine = find_peers(args.peers), this_machine()
    corpora = read_corpora(args.suites, data_folder() / "golden", cache_folder(), sizes)
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
    parser.add_argument("--memories", type=int, default=sizes.memories, help="texts whose builds are timed")
    parser.add_argument("--rounds", type=int, default=sizes.rounds, help="how often; medians are reported")
    parser.add_argument("--suite-texts", type=int, default=sizes.suite_texts, help="texts of a suite with scopes")
    parser.add_argument("--questions", type=int, default=sizes.questions, help="questions of a suite")
    parser.add_argument("--limit", type=float, default=sizes.limit_s, help="seconds of one timed process")
    parser.add_argument("--suites-limit", type=float, default=sizes.suites_limit_s, help="seconds of all suites")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the processes and their logs")
    return parser


if __name__ == "__main__":
    main()
