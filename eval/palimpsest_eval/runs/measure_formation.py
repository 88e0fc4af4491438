"""How well notes are formed: items of conversations, by rules or by a model, compared with golden ones.

    python -m palimpsest_eval.runs.measure_formation development [--by rules|lm|both] [--home HOME] [--max-cost X]
        [--errors]

`development` and `test` are the halves of the diary; `emeka` is a history that trains nothing. A formed item is right
where its words overlap the quote of a golden item of its kind. Optional items count for precision alone. `lm` and
`both` need PALIMPSEST_LM; answers are in the ledger of the home.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.formation.note_table import FormItems
from palimpsest.formation.reflection import LmReflection
from palimpsest.formation.rules import form_items
from palimpsest.formation.session import KINDS, RULES, NoteItem, Session, Turn
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import lm_settings
from palimpsest.store.home import Home, data_folder

HOUSEHOLD = "household"
"""The collection of the demo corpus whose memories are also formed."""
FACTS = ("fact", "preference")
"""Kinds of the figures that have a bar."""


@dataclass(frozen=True)
class GoldenItem:
    """What should be formed."""

    kinds: tuple[str, ...]
    quote: str
    span: tuple[int, int]
    is_optional: bool


@dataclass(frozen=True)
class GoldenSession:
    """A session with what should be formed of it."""

    session: Session
    items: tuple[GoldenItem, ...]


@dataclass
class Scores:
    """Counts by kind, and what was wrong or missed."""

    formed: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    golden: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def precision(self, *kinds: str) -> float:
        """Returns the share of formed items that are right; 0 where none is formed."""
        return sum(self.right[k] for k in kinds) / max(sum(self.formed[k] for k in kinds), 1)

    def recall(self, *kinds: str) -> float:
        """Returns the share of golden items that are formed; 0 where there is none."""
        return sum(self.found[k] for k in kinds) / max(sum(self.golden[k] for k in kinds), 1)


def read_half(half: str) -> list[GoldenSession]:
    """Returns the golden sessions of `development` or `test`."""
    return read_golden(data_folder() / f"golden/formation/{half}.jsonl", data_folder() / "corpora/diary")


def read_user(user: str) -> list[GoldenSession]:
    """Returns the golden sessions of a user with conversations of their own."""
    return read_golden(data_folder() / f"golden/formation/notes/{user}.jsonl", conversations_of(user).parent)


def conversations_of(user: str) -> Path:
    """Returns the file with the conversations of a user: of the demo corpus, else of the golden notes."""
    demo = data_folder() / f"corpora/{HOUSEHOLD}/{user}.jsonl"
    return demo if demo.is_file() else data_folder() / f"golden/formation/conversations/{user}.jsonl"


def read_golden(path: Path, corpus: Path) -> list[GoldenSession]:
    """Returns the sessions of a golden file.

    Args:
        path: the file.
        corpus: folder of the collection that its uris name.

    Raises:
        ValueError: a quote is not in its session.
    """
    return [_golden_session(json.loads(line), corpus) for line in path.read_text(encoding="utf-8").splitlines()]


def _golden_session(row: Mapping[str, Any], corpus: Path) -> GoldenSession:
    text, turns = "", []
    for turn in row["turns"] if "turns" in row else _turns(corpus, row["uri"]):
        text += f"{turn['speaker']}: "
        turns.append(Turn(turn["speaker"], turn["text"], len(text)))
        text += turn["text"] + "\n"
    items = []
    for item in row["items"]:
        start = text.find(item["quote"])
        if start < 0:
            raise ValueError(f"{row['id']}: {item['quote']!r} is not in the session")
        kinds = (item["kind"], *item.get("also", ()))
        place = (start, start + len(item["quote"]))
        items.append(GoldenItem(kinds, item["quote"], place, bool(item.get("optional"))))
    return GoldenSession(Session(row["id"], tuple(turns)), tuple(items))


def _turns(corpus: Path, uri: str) -> Iterator[Mapping[str, Any]]:
    file, _, session = uri.partition("#")
    for line in (corpus / file).read_text(encoding="utf-8").splitlines():
        turn = json.loads(line)
        if turn["session_id"] == session:
            yield turn


def score(golden: Sequence[GoldenSession], formed: Sequence[Sequence[NoteItem]]) -> Scores:
    """Compares the items of sessions with the golden ones."""
    scores = Scores()
    for expected, items in zip(golden, formed, strict=True):
        found: set[GoldenItem] = set()
        for item in items:
            right = [g for g in expected.items if item.kind in g.kinds and _overlap(item.span, g.span)]
            scores.formed[item.kind] += 1
            scores.right[item.kind] += bool(right)
            found.update(right)
            if not right:
                scores.errors.append(f"wrong {item.kind}: {item.statement}")
        for g in expected.items:
            if not g.is_optional:
                scores.golden[g.kinds[0]] += 1
                scores.found[g.kinds[0]] += g in found
                if g not in found:
                    scores.errors.append(f"missed {g.kinds[0]}: {g.quote}")
    return scores


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def figures(scores: Scores) -> Mapping[str, tuple[float, float]]:
    """Returns (precision, recall) of facts and preferences together, and of each kind."""
    kinds = sorted(scores.formed | scores.golden)
    return {"facts and preferences": (scores.precision(*FACTS), scores.recall(*FACTS))} | {
        kind: (scores.precision(kind), scores.recall(kind)) for kind in kinds
    }


def score_items(golden: Sequence[GoldenSession], form: FormItems) -> Scores:
    """Compares what `form` makes of the sessions with the golden items."""
    return score(golden, list(form([g.session for g in golden])))


def compare(scores: Mapping[str, Scores]) -> pl.DataFrame:
    """Returns a row for each kind and each of the scores: kind, by, precision, recall, formed, golden."""
    rows = [
        (kind, name, precision, recall, sum(found.formed[k] for k in kinds), sum(found.golden[k] for k in kinds))
        for name, found in scores.items()
        for kind, (precision, recall) in figures(found).items()
        for kinds in [FACTS if kind not in KINDS else (kind,)]
    ]
    columns = ["kind", "by", "precision", "recall", "formed", "golden"]
    return pl.DataFrame(rows, schema=columns, orient="row").sort("kind", "by")


def main() -> None:
    """Prints the figures of one half, or of Emeka."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=["development", "test", "emeka"])
    parser.add_argument("--errors", action="store_true", help="print what was wrong or missed")
    parser.add_argument("--by", choices=[RULES, "lm", "both"], default=RULES, help="who forms the items")
    parser.add_argument("--home", type=Path, default=data_folder() / "home", help="whose ledger stores the answers")
    parser.add_argument("--max-cost", type=float, help="the most that the model may cost")
    arguments = parser.parse_args()
    golden = read_user(arguments.half) if arguments.half == "emeka" else read_half(arguments.half)
    if arguments.by == RULES:
        scores = score_items(golden, form_items)
    else:
        ledger = Ledger(Home(arguments.home).lm_ledger)
        reflection = LmReflection(lm_settings(), ledger, arguments.max_cost, with_rules=arguments.by == "both")
        scores = score_items(golden, reflection.form_items)
        ledger.close()
        left_out = [*sorted(reflection.dropped.items()), *sorted(reflection.run.without_answer.items())]
        sys.stdout.write("".join(f"{n} left out: {reason}\n" for reason, n in left_out))
    if arguments.errors:
        sys.stdout.write("\n".join([*scores.errors, ""]))
    for name, (precision, recall) in figures(scores).items():
        sys.stdout.write(f"{name}: precision {precision:.3f}, recall {recall:.3f}\n")


if __name__ == "__main__":
    main()
