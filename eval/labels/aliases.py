"""How well names are resolved: the golden aliases against the entities of a home's published build.

`python -m palimpsest.eval.labels.aliases --home HOME` prints each scope's figures and what is wrong. A name counts
where its scope says it; the names of one golden entity should be one entity of the build, and a name
under `not` should be another.
"""

import argparse
import itertools
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import published
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder

Tables = Mapping[str, pl.DataFrame]
FOLDER = "aliases.jsonl"


@dataclass(frozen=True)
class Resolved:
    """A name of the golden set in its scope: whose it should be, and the entity that most of its places name."""

    scope: tuple[str, str]
    name: str
    gold: str
    entity: str | None
    places: int
    named: int


@dataclass(frozen=True)
class Figures:
    """Pairwise figures over the names of each scope, B-cubed F1, and pairs of homonyms that are one entity."""

    names: int
    unseen: tuple[str, ...]
    precision: float
    recall: float
    f1: float
    b_cubed_f1: float
    homonyms_merged: tuple[str, ...]
    missed: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as JSON values, fractions rounded to 4 decimals."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in self.__dict__.items()}


def read_aliases(path: Path) -> list[dict[str, Any]]:
    """Reads lines of `{"collection", "user", "entity", "names", "not"}`.

    Raises:
        PalimpsestError: the file is missing or a line lacks a field; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise PalimpsestError(f"{path}: no such file; name a JSONL file of aliases") from None
    out = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            out.append({k: row[k] for k in ("collection", "user", "entity", "names", "not")})
        except (ValueError, KeyError, TypeError):
            raise PalimpsestError(f"{path}: line {number} needs collection, user, entity, names and not") from None
    return out


def resolve_names(golden: Iterable[Mapping[str, Any]], tables: Tables) -> list[Resolved]:
    """Finds each golden name in the memories of its scope, outside longer ones, and the entity that stands there.

    At each place the mention that overlaps it most counts, the one with the nearest end where two do; a name is the
    entity of most of its places, the least id of two.
    """
    owners: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in golden:
        scope = (row["collection"], row["user"])
        for name in row["names"]:
            owners[scope][name] = row["entity"]
        for name in row["not"]:
            owners[scope].setdefault(name, f"not {row['entity']}: {name}")
    out = []
    for scope, names in sorted(owners.items()):
        of = dict(names.items())
        texts = tables["memories"].filter(collection=scope[0], user_id=scope[1]).select("memory_id", "text", "title")
        spans = _spans(tables["mentions"].filter(collection=scope[0], user_id=scope[1]))
        found = _places(of, texts, spans)
        for name in sorted(of):
            votes, seen = found[name]
            if not seen:  # said by a title or a heading only: known by that spelling, or not at all
                votes, seen = _spelled(tables["entities"], scope, name)
            best = min(votes, key=lambda e: (-votes[e], e)) if votes else None
            out.append(Resolved(scope, name, of[name], best, seen, votes[best] if best else 0))
    return out


def _spelled(entities: pl.DataFrame, scope: tuple[str, str], name: str) -> tuple[Counter[str], int]:
    mine = entities.filter(collection=scope[0], user_id=scope[1])
    hit = mine.filter((pl.col("name") == name) | pl.col("aliases").list.contains(name))["entity_id"]
    return Counter(hit.to_list()), len(hit)


def _spans(mentions: pl.DataFrame) -> dict[str, list[tuple[int, int, str]]]:
    out: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    placed = mentions.filter(pl.col("char_start").is_not_null()).sort(
        "memory_id", "char_start", "char_end", "entity_id"
    )
    for memory_id, start, end, entity in placed.select("memory_id", "char_start", "char_end", "entity_id").iter_rows():
        out[memory_id].append((start, end, entity))
    return out


def _places(
    names: Iterable[str], texts: pl.DataFrame, spans: Mapping[str, list[tuple[int, int, str]]]
) -> dict[str, tuple[Counter[str], int]]:
    ordered = sorted(names, key=lambda n: (-len(n), n))
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(n)}(?!\w)" for n in ordered))
    found: dict[str, tuple[Counter[str], int]] = {n: (Counter(), 0) for n in ordered}
    for memory_id, text, _ in texts.iter_rows():
        for m in pattern.finditer(text):
            votes, seen = found[m.group()]
            found[m.group()] = (votes, seen + 1)
            over = [
                (min(e, m.end()) - max(s, m.start()), -abs(e - m.end()), entity)
                for s, e, entity in spans.get(memory_id, ())
                if s < m.end() and e > m.start()
            ]
            if over:
                votes[max(over)[2]] += 1
    return found


def figures(resolved: Sequence[Resolved]) -> Figures:
    """Returns pairwise precision, recall and F1, and B-cubed F1, over the names that their scope says."""
    said = [r for r in resolved if r.places]
    right = found = wanted = 0
    missed, merged = [], []
    for a, b in itertools.combinations(said, 2):
        if a.scope != b.scope:
            continue
        one, gold = a.entity is not None and a.entity == b.entity, a.gold == b.gold
        right, found, wanted = right + (one and gold), found + one, wanted + gold
        told = f"{'/'.join(a.scope)}: {a.name} | {b.name}"
        if one and not gold:
            merged.append(told)
        elif gold and not one:
            missed.append(told)
    precision, recall = right / found if found else 1.0, right / wanted if wanted else 1.0
    return Figures(
        names=len(said),
        unseen=tuple(f"{'/'.join(r.scope)}: {r.name}" for r in resolved if not r.places),
        precision=precision,
        recall=recall,
        f1=_f1(precision, recall),
        b_cubed_f1=_b_cubed(said),
        homonyms_merged=tuple(merged),
        missed=tuple(missed),
    )


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _b_cubed(said: Sequence[Resolved]) -> float:
    """B-cubed F1 (Bagga and Baldwin 1998): the mean over names of how much of its cluster is right, and whole."""
    if not said:
        return 0.0
    gold, made = defaultdict(set), defaultdict(set)
    key = {}
    for i, r in enumerate(said):
        key[i] = (r.scope, r.entity) if r.entity else (r.scope, f"none {i}")
        gold[r.scope, r.gold].add(i)
        made[key[i]].add(i)
    both = [
        (len(gold[r.scope, r.gold] & made[key[i]]), len(made[key[i]]), len(gold[r.scope, r.gold]))
        for i, r in enumerate(said)
    ]
    return _f1(sum(b / m for b, m, _ in both) / len(both), sum(b / g for b, _, g in both) / len(both))


def measure(home: Home, path: Path | None = None) -> Figures:
    """Measures the published build of a home on the golden aliases of the collections that it holds.

    Raises:
        PalimpsestError: nothing is published, or the build holds none of the collections.
    """
    build = published(home)
    if build is None:
        raise PalimpsestError(f"home {home.path}: nothing is published; run palimpsest build first")
    golden = [
        r for r in read_aliases(path or data_folder() / "golden" / FOLDER) if r["collection"] in build.collections
    ]
    if not golden:
        raise PalimpsestError(f"aliases: no line is about a collection of this home ({', '.join(build.collections)})")
    return figures(resolve_names(golden, build.tables(("memories", "mentions", "entities"))))


def text(done: Figures) -> str:
    """Returns the figures for people."""
    lines = [
        f"{done.names} names: pairwise F1 {done.f1:.3f} (precision {done.precision:.3f}, recall {done.recall:.3f}), "
        f"B-cubed F1 {done.b_cubed_f1:.3f}, homonyms merged {len(done.homonyms_merged)}"
    ]
    lines += [f"merged wrongly  {x}" for x in done.homonyms_merged]
    lines += [f"not seen as one {x}" for x in done.missed]
    lines += [f"said nowhere    {x}" for x in done.unseen]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Prints the figures; with `--json` one JSON object as the last line. Returns 2 on bad input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME)
    parser.add_argument("--aliases", type=Path, help="another file than data/golden/aliases.jsonl")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        done = measure(Home(args.home), args.aliases)
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    sys.stdout.write(text(done) + "\n")
    if args.json:
        sys.stdout.write(json.dumps(done.to_json(), sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
