"""How well facts are extracted: the golden facts against the facts of a home's newest build.

`python -m palimpsest_eval.runs.measure_facts --home HOME` reads data/golden/facts/development.jsonl, whose
README says how it was written. A passage is looked up in the build by its words, and the facts whose clause is in it
are compared:

- Subjects, objects and values match by their content words: one contains the other, and neither has more than three
  times the words of the other. An entity has the words of its name or of one of its aliases. A fact between two names
  matches in the inverse direction too.
- The predicate is the golden one or one of its `also`, after both are brought to the vocabulary of predicates; figures
  without this condition are printed too.
- Both deny, or neither does.

Facts of the form of documents, and words that end others, are not compared: the golden ones are of clauses.
Precision is the share of extracted facts that match a golden one, an optional one too; recall is the share of golden
facts that are not optional and are matched.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.facts.fact_tables import FORM
from palimpsest.store.builds import kept_builds
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder
from palimpsest_eval.golden.golden_facts import Passage, StatedFact, golden_filler, matches, read_passages
from palimpsest_eval.golden.questions import Quote, Tables
from palimpsest_eval.golden.resolve import QuoteIndex

TABLES = ("documents", "document_texts", "memories", "entities", "speakers", "clause_facts")


@dataclass
class FactCounts:
    """Counts of one collection, or of all.

    Attributes:
        extracted, right, right_but_predicate: extracted facts; those that match; those that match in all but predicate.
        golden, found, found_but_predicate: golden facts that are not optional; those that are matched.
        core, core_found: the same of core facts.
    """

    extracted: int = 0
    right: int = 0
    right_but_predicate: int = 0
    golden: int = 0
    found: int = 0
    found_but_predicate: int = 0
    core: int = 0
    core_found: int = 0

    def __add__(self, other: "FactCounts") -> "FactCounts":
        return FactCounts(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def to_json(self) -> JsonObject:
        """Returns the counts and the shares."""
        return {
            **vars(self),
            "precision": _share(self.right, self.extracted),
            "recall": _share(self.found, self.golden),
            "core_recall": _share(self.core_found, self.core),
            "precision_without_predicate": _share(self.right_but_predicate, self.extracted),
            "recall_without_predicate": _share(self.found_but_predicate, self.golden),
        }


@dataclass
class FactMetrics:
    """Figures of extracted facts.

    Attributes:
        counts: by collection.
        absent: ids of passages that are not in the build.
        errors: `wrong` and `missed` facts, a line each.
    """

    counts: dict[str, FactCounts] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def text(self, with_errors: bool = False) -> str:
        """Returns a table by collection; with errors a line for each fact that is wrong or missed."""
        lines = [f"{'':9}  facts  right  precision  golden  recall  core recall  without predicate: precision, recall"]
        for name, c in [*sorted(self.counts.items()), ("all", sum(self.counts.values(), FactCounts()))]:
            j = c.to_json()
            lines.append(
                f"{name:9}  {c.extracted:5}  {c.right:5}  {j['precision']:9.3f}  {c.golden:6}  {j['recall']:6.3f}  "
                f"{j['core_recall']:11.3f}  {j['precision_without_predicate']:28.3f}, "
                f"{j['recall_without_predicate']:6.3f}"
            )
        if self.absent:
            lines.append(f"passages that are not in the build: {len(self.absent)} ({', '.join(self.absent)})")
        return "\n".join([*lines, *(self.errors if with_errors else ())])

    def to_json(self) -> JsonObject:
        """Returns the figures by collection and in all."""
        by_collection: JsonObject = {name: c.to_json() for name, c in sorted(self.counts.items())}
        return {**by_collection, "all": sum(self.counts.values(), FactCounts()).to_json(), "absent": len(self.absent)}


def measure_facts(tables: Tables, passages: Sequence[Passage]) -> FactMetrics:
    """Compares the facts of a build with golden ones.

    Args:
        tables: those of `TABLES`.
        passages: of collections of the build.
    """
    metrics, stated = FactMetrics(), _StatedFacts(tables, passages)
    for passage in passages:
        found = stated.find(passage)
        if found is None:
            metrics.absent.append(passage["id"])
            continue
        counts, golden = metrics.counts.setdefault(passage["collection"], FactCounts()), passage["facts"]
        for fact in found:
            is_right = any(matches(fact, g) for g in golden)
            counts.extracted += 1
            counts.right += is_right
            counts.right_but_predicate += any(matches(fact, g, with_predicate=False) for g in golden)
            if not is_right:
                metrics.errors.append(f"wrong   {passage['id']}  {fact}  ({fact.confidence})")
        for g in golden:
            if g.get("optional"):
                continue
            is_found = any(matches(fact, g) for fact in found)
            counts.golden += 1
            counts.found += is_found
            counts.found_but_predicate += any(matches(fact, g, with_predicate=False) for fact in found)
            counts.core += bool(g.get("core"))
            counts.core_found += is_found and bool(g.get("core"))
            if not is_found:
                metrics.errors.append(
                    f"missed  {passage['id']}  {g['subject']} | {g['predicate']} | {golden_filler(g)}"
                )
    return metrics


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


class _StatedFacts:
    """The facts of the memories that show a passage."""

    def __init__(self, tables: Tables, passages: Sequence[Passage]):
        collections = sorted({p["collection"] for p in passages})
        self._indexes = {
            c: QuoteIndex(tables, c, {p["uri"] for p in passages if p["collection"] == c}) for c in collections
        }
        users = tables["documents"].select("collection", "user_id").unique().sort("collection", "user_id")
        self._users: Mapping[str, list[str]] = {
            c: users.filter(pl.col("collection") == c)["user_id"].to_list() for c in collections
        }
        self._names = {
            entity_id: (name, *(aliases or ()))
            for entity_id, name, aliases in tables["entities"].select("entity_id", "name", "aliases").iter_rows()
        } | {i: (name,) for i, name in tables["speakers"].select("entity_id", "name").iter_rows()}
        self._facts: dict[str, list[tuple[str, StatedFact]]] = {}
        read = tables["clause_facts"].filter(pl.col("extractor").ne_missing(FORM) & (pl.col("predicate") != ""))
        rows = read.join(tables["memories"].select("memory_id", "text"), on="memory_id", how="inner")
        for r in rows.iter_rows(named=True):
            filler = self._named(r["object_id"]) if r["object_id"] else (r["value"],)
            fact = StatedFact(self._named(r["subject_id"]), r["predicate"], filler, r["is_negated"], r["confidence"])
            clause = " ".join(r["text"][r["char_start"] : r["char_end"]].split())
            self._facts.setdefault(r["memory_id"], []).append((clause, fact))

    def _named(self, entity_id: str) -> tuple[str, ...]:
        return self._names.get(entity_id, (entity_id,))

    def find(self, passage: Passage) -> list[StatedFact] | None:
        """Returns the facts whose clauses are in a passage, each once; None where the build lacks the passage."""
        text = " ".join(passage["text"].split())
        users = [passage["user"]] if passage.get("user") else self._users[passage["collection"]]
        quote, index = Quote(uri=passage["uri"], quote=passage["text"]), self._indexes[passage["collection"]]
        found = [ids for user in users if not isinstance(ids := index.find_memories(quote, user), str)]
        if not found:
            return None
        stated = [f for ids in found for m in sorted(ids) for clause, f in self._facts.get(m, ()) if clause in text]
        return sorted(set(stated), key=str)


def main(argv: list[str] | None = None) -> int:
    """Prints the figures; with `--json` one JSON object as the last line. Returns 2 on bad input."""  # noqa: DOC501 (caught, becomes the exit code)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME)
    parser.add_argument("--golden", type=Path, help="another file than data/golden/facts/development.jsonl")
    parser.add_argument("--errors", action="store_true", help="a line for each fact that is wrong or missed")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        builds = kept_builds(Home(args.home))
        if not builds:
            raise PalimpsestError(f"home {args.home}: it has no build; run palimpsest build first")
        passages = read_passages(args.golden or data_folder() / "golden" / "facts" / "development.jsonl")
        in_build = [p for p in passages if p["collection"] in builds[-1].collections]
        metrics = measure_facts(builds[-1].tables(TABLES), in_build)
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    sys.stdout.write(metrics.text(args.errors) + "\n")
    if args.json:
        sys.stdout.write(json.dumps(metrics.to_json(), sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
