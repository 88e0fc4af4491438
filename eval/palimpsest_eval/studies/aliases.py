"""How well names are resolved: the golden aliases against the entities of a home's published build.

`python -m palimpsest_eval.studies.aliases --home HOME` prints the metrics and every error. A name counts where a
memory of its scope mentions it; the names of one golden entity should be one entity of the build, and a name under
`not` should be another.
"""

import argparse
import itertools
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict, cast

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.store.builds import published
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder

Tables = Mapping[str, pl.DataFrame]
ALIASES_FILE = "aliases.jsonl"
_Spans = Mapping[str, Sequence[tuple[int, int, str]]]


AliasRow = TypedDict("AliasRow", {"collection": str, "user": str, "entity": str, "names": list[str], "not": list[str]})
"""A line of the golden aliases: an entity of a scope, its names, and names that are another's."""


@dataclass(frozen=True)
class ResolvedName:
    """A name of the golden set in its scope.

    Attributes:
        scope: collection and user.
        name: the name.
        gold: the entity it should be.
        entity: id of the entity that most of its occurrences are mentions of; None where none is one.
        occurrences: how often it occurs.
        mentions: occurrences that are mentions of that entity.
    """

    scope: tuple[str, str]
    name: str
    gold: str
    entity: str | None
    occurrences: int
    mentions: int

    @property
    def label(self) -> str:
        """`collection/user: name`."""
        return f"{'/'.join(self.scope)}: {self.name}"


@dataclass(frozen=True)
class AliasMetrics:
    """Metrics over the names that occur in their scope.

    Attributes:
        names: how many.
        unseen: golden names that do not occur.
        precision: of the pairs of names in one entity, the share that should be.
        recall: of the pairs of names that should be in one entity, the share that are.
        f1: of these pairs.
        b_cubed_f1: of names (Bagga and Baldwin 1998).
        homonyms_merged: pairs of names that are one entity and should not be.
        missed: pairs of names that should be one entity and are not.
    """

    names: int
    unseen: tuple[str, ...]
    precision: float
    recall: float
    f1: float
    b_cubed_f1: float
    homonyms_merged: tuple[str, ...]
    missed: tuple[str, ...]

    def to_json(self) -> JsonObject:
        """Returns the metrics as JSON values, fractions rounded to 4 decimals."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}

    def text(self) -> str:
        """Returns the metrics and every error for people."""
        lines = [
            f"{self.names} names: pairwise F1 {self.f1:.3f} (precision {self.precision:.3f}, "
            f"recall {self.recall:.3f}), B-cubed F1 {self.b_cubed_f1:.3f}, homonyms merged {len(self.homonyms_merged)}"
        ]
        lines += [f"merged wrongly  {pair}" for pair in self.homonyms_merged]
        lines += [f"not seen as one {pair}" for pair in self.missed]
        lines += [f"never mentioned {name}" for name in self.unseen]
        return "\n".join(lines)


def read_aliases(path: Path) -> list[AliasRow]:
    """Reads the golden aliases.

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
            out.append(cast(AliasRow, {k: row[k] for k in AliasRow.__required_keys__}))
        except (ValueError, KeyError, TypeError):
            raise PalimpsestError(f"{path}: line {number} needs collection, user, entity, names and not") from None
    return out


def resolve_names(golden: Iterable[AliasRow], tables: Tables) -> list[ResolvedName]:
    """Finds each golden name in the memories of its scope, outside longer names, and the entity it is a mention of.

    Of several mentions that overlap an occurrence, the one that overlaps it most counts, of two such the one with the
    nearest end; a name is the entity of most of its occurrences, of two such the one with the least id.
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
        texts = tables["memories"].filter(collection=scope[0], user_id=scope[1]).select("memory_id", "text", "title")
        spans = _mention_spans(tables["mentions"].filter(collection=scope[0], user_id=scope[1]))
        found = _find_occurrences(names, texts, spans)
        for name in sorted(names):
            votes, occurrences = found[name]
            if not occurrences:  # in a title or a heading only: found by its spelling, or not at all
                votes, occurrences = _entities_of_spelling(tables["entities"], scope, name)
            best = min(votes, key=lambda e: (-votes[e], e)) if votes else None
            out.append(ResolvedName(scope, name, names[name], best, occurrences, votes[best] if best else 0))
    return out


def _entities_of_spelling(entities: pl.DataFrame, scope: tuple[str, str], name: str) -> tuple[Counter[str], int]:
    in_scope = entities.filter(collection=scope[0], user_id=scope[1])
    hit = in_scope.filter((pl.col("name") == name) | pl.col("aliases").list.contains(name))["entity_id"]
    return Counter(hit.to_list()), len(hit)


def _mention_spans(mentions: pl.DataFrame) -> _Spans:
    """Returns (start, end, entity id) of the mentions of each memory, in order."""
    out: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    with_span = mentions.filter(pl.col("char_start").is_not_null()).sort(
        "memory_id", "char_start", "char_end", "entity_id"
    )
    for memory_id, start, end, entity in with_span.select(
        "memory_id", "char_start", "char_end", "entity_id"
    ).iter_rows():
        out[memory_id].append((start, end, entity))
    return out


def _find_occurrences(names: Iterable[str], texts: pl.DataFrame, spans: _Spans) -> dict[str, tuple[Counter[str], int]]:
    """Returns for each name the mentions by entity at its occurrences, and the number of occurrences."""
    ordered = sorted(names, key=lambda n: (-len(n), n))
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(n)}(?!\w)" for n in ordered))
    found: dict[str, tuple[Counter[str], int]] = {n: (Counter(), 0) for n in ordered}
    for memory_id, text, _ in texts.iter_rows():
        for m in pattern.finditer(text):
            votes, occurrences = found[m.group()]
            found[m.group()] = (votes, occurrences + 1)
            overlapping = [
                (min(e, m.end()) - max(s, m.start()), -abs(e - m.end()), entity)
                for s, e, entity in spans.get(memory_id, ())
                if s < m.end() and e > m.start()
            ]
            if overlapping:
                votes[max(overlapping)[2]] += 1
    return found


def alias_metrics(resolved: Sequence[ResolvedName]) -> AliasMetrics:
    """Returns the metrics of resolved names; names of different scopes make no pair."""
    names = [r for r in resolved if r.occurrences]
    right = found = wanted = 0
    missed, merged = [], []
    for a, b in itertools.combinations(names, 2):
        if a.scope != b.scope:
            continue
        one, gold = a.entity is not None and a.entity == b.entity, a.gold == b.gold
        right, found, wanted = right + (one and gold), found + one, wanted + gold
        pair = f"{a.label} | {b.name}"
        if one and not gold:
            merged.append(pair)
        elif gold and not one:
            missed.append(pair)
    precision, recall = right / found if found else 1.0, right / wanted if wanted else 1.0
    return AliasMetrics(
        names=len(names),
        unseen=tuple(r.label for r in resolved if not r.occurrences),
        precision=precision,
        recall=recall,
        f1=_f1(precision, recall),
        b_cubed_f1=_b_cubed_f1(names),
        homonyms_merged=tuple(merged),
        missed=tuple(missed),
    )


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _b_cubed_f1(names: Sequence[ResolvedName]) -> float:
    """Returns F1 of the means over names of how much of its cluster is right, and how much of it was found."""
    if not names:
        return 0.0
    gold, found = defaultdict(set), defaultdict(set)
    cluster = {}
    for i, r in enumerate(names):
        cluster[i] = (r.scope, r.entity or f"none {i}")
        gold[r.scope, r.gold].add(i)
        found[cluster[i]].add(i)
    sizes = [
        (len(gold[r.scope, r.gold] & found[cluster[i]]), len(found[cluster[i]]), len(gold[r.scope, r.gold]))
        for i, r in enumerate(names)
    ]
    precision = sum(both / size for both, size, _ in sizes) / len(sizes)
    return _f1(precision, sum(both / size for both, _, size in sizes) / len(sizes))


def measure_aliases(home: Home, path: Path | None = None) -> AliasMetrics:
    """Measures the published build of a home on the golden aliases of its collections.

    Raises:
        PalimpsestError: nothing is published, or the build has none of the collections.
    """
    build = published(home)
    if build is None:
        raise PalimpsestError(f"home {home.path}: it has no published build; run palimpsest build first")
    golden = [
        r for r in read_aliases(path or data_folder() / "golden" / ALIASES_FILE) if r["collection"] in build.collections
    ]
    if not golden:
        raise PalimpsestError(f"aliases: no line is about a collection of this home ({', '.join(build.collections)})")
    return alias_metrics(resolve_names(golden, build.tables(("memories", "mentions", "entities"))))


def main(argv: list[str] | None = None) -> int:
    """Prints the metrics; with `--json` one JSON object as the last line. Returns 2 on bad input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME)
    parser.add_argument("--aliases", type=Path, help="another file than data/golden/aliases.jsonl")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        metrics = measure_aliases(Home(args.home), args.aliases)
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    sys.stdout.write(metrics.text() + "\n")
    if args.json:
        sys.stdout.write(json.dumps(metrics.to_json(), sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
