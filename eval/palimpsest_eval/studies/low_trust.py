"""What less trusted sources and mistakes can retire: `python -m palimpsest_eval.studies.low_trust --pairs 40`.

Writes labeled pairs as turns of a home, each pair as a user of its own, and builds and reviews them with the command
line and the labeler that is installed:

- updates whose older statement is by a speaker with trust 0.9 and whose newer one is by a speaker with trust 0.2;
- static conflicts: a later mistaken or false statement against an older one, both trusted alike.

Nothing of either may be retired. The first are built once more with equal trust: what is retired then is what trust
held back. The pairs are of the test domains of data/golden/pairs, or with `--split train` of those that the shipped
labeler was trained on.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.pairs_file import PairRow, written_pairs
from palimpsest.store.builds import published
from palimpsest.store.home import Home

_COLLECTION = "trust_study"  # a name without golden questions
_TRUST = "trust: {speakers: {Trusted: 0.9, Untrusted: 0.2}}\n"
_FIRST_DAY = dt.date(2026, 1, 1)
_RUN_CLI = "import sys; from palimpsest.cli.main import main; sys.argv[0] = 'palimpsest'; main()"


@dataclass(frozen=True)
class RetiredAndProposed:
    """What a build did with pairs of which nothing may be retired.

    Attributes:
        pairs: how many there were.
        compared: pairs that the build labeled at all, as candidates.
        retired: memories that are not latest.
        proposed: pairs that `palimpsest review` lists.
        reasons: the listed pairs by reason.
        retired_at_equal_trust: the same pairs built without trust; None where that was not measured.
    """

    pairs: int
    compared: int
    retired: int
    proposed: int
    reasons: Mapping[str, int]
    retired_at_equal_trust: int | None = None


def select_pairs(split: str, count: int, **fields: str) -> list[PairRow]:
    """Returns `count` pairs of a split with these fields: always the same, spread over the domains."""
    found = [r for r in written_pairs(split) if fields.items() <= r.items()]
    return sorted(found, key=lambda r: content_id("low trust study", r["id"]))[:count]


def measure_low_trust(folder: Path, updates: Iterable[PairRow]) -> RetiredAndProposed:
    """Builds updates by a less trusted speaker, then with equal trust."""
    pairs = list(updates)
    write_corpus(folder / "corpus", pairs, newer_speaker="Untrusted", settings=_TRUST)
    figures = _build_and_review(folder, len(pairs))
    write_corpus(folder / "corpus", pairs, newer_speaker="Untrusted", settings="")
    retired = int(_run_palimpsest("build", "--corpus", folder / "corpus", "--home", folder / "home")["retired"])
    return RetiredAndProposed(**asdict(figures) | {"retired_at_equal_trust": retired})


def measure_static(folder: Path, conflicts: Iterable[PairRow]) -> RetiredAndProposed:
    """Builds static conflicts between statements that are trusted alike."""
    pairs = list(conflicts)
    write_corpus(folder / "corpus", pairs, newer_speaker="Trusted", settings="")
    return _build_and_review(folder, len(pairs))


def write_corpus(corpus: Path, pairs: Iterable[PairRow], newer_speaker: str, settings: str) -> None:
    """Writes a collection of two turns for each pair; a pair without dates has two days of its own."""
    folder = corpus / _COLLECTION
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "collection.yaml").write_text(f"name: {_COLLECTION}\ndescription: labeled pairs\nunit: turn\n{settings}")
    lines = []
    for pair in pairs:
        days = pair.get("older_date"), pair.get("newer_date")
        if not all(days):
            days = _FIRST_DAY.isoformat(), (_FIRST_DAY + dt.timedelta(days=30)).isoformat()
        older, newer = (pair["older"], "Trusted", days[0]), (pair["newer"], newer_speaker, days[1])
        for side, (text, speaker, day) in (("older", older), ("newer", newer)):
            turn = {"session_id": f"{pair['id']} {side}", "user_id": pair["id"], "speaker": speaker}
            lines.append(json.dumps(turn | {"text": text, "timestamp": day}))
    (folder / "turns.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def _build_and_review(folder: Path, pairs: int) -> RetiredAndProposed:
    home = folder / "home"
    retired = int(_run_palimpsest("build", "--corpus", folder / "corpus", "--home", home)["retired"])
    listed = _run_palimpsest("review", "--limit", 10 * pairs, "--home", home)["relations"]
    reasons = {row["user_id"]: row["why"] for row in reversed(listed)}  # the most serious of each pair
    build = published(Home(home))
    compared = build.table(_COLLECTION, "relations").height if build else 0
    return RetiredAndProposed(pairs, compared, retired, len(reasons), dict(sorted(Counter(reasons.values()).items())))


def _run_palimpsest(*args: object) -> dict[str, Any]:
    command = [sys.executable, "-c", _RUN_CLI, *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{' '.join(command[3:])}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures as one JSON object; returns 1 where anything was retired."""
    parser = argparse.ArgumentParser(description="Count what less trusted sources and mistakes retire.")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of each kind")
    parser.add_argument("--split", choices=("test", "train"), default="test", help="of data/golden/pairs")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="palimpsest-trust-") as folder:
        low = measure_low_trust(Path(folder, "low"), select_pairs(args.split, args.pairs, label="UPDATE"))
        static = measure_static(Path(folder, "static"), select_pairs(args.split, args.pairs, conflict="static"))
    sys.stdout.write(json.dumps({"low_trust_updates": asdict(low), "static_conflicts": asdict(static)}) + "\n")
    return int(bool(low.retired or static.retired))


if __name__ == "__main__":
    raise SystemExit(main())
