"""How well facts between names are extracted from encyclopaedia pages: Re-DocRED, with library NER.

`python -m palimpsest_eval.studies.redocred FILE` reads a file of Re-DocRED (dev_revised.json to look at,
test_revised.json to report), takes a seeded sample of its documents, finds names as a collection with `ner:` does and
extracts facts by rules. Each document is a scope by itself. The protocol:

- Re-DocRED labels 96 relations of Wikidata. A fact between two names is judged where its predicate maps to some of
  them (`RELATIONS`) and both names are entities of the document; it is right where one of those relations is labeled
  between the two, or to a place that is labeled to be in the other one (born in Michigan, where Detroit is labeled).
  `lives_in` is left out: its relation has 15 labels in dev_revised.json. Other facts between names are counted as not
  judged.
- Recall is over labeled triples of mapped relations that one sentence states: it is the only evidence and names both.
  Dates and numbers are left out.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE
from palimpsest.core.json_types import JsonObject
from palimpsest.entities.entity_tables import entity_tables
from palimpsest.facts.fact_tables import FactInputs, clause_facts
from palimpsest.store.tables import conform, empty
from palimpsest.text.parse import MODEL
from palimpsest.text.terms import fold

_MAX_MEMORY_CHARS = 1000
_NOT_NAMES = frozenset({"TIME", "NUM"})
_TO_PLACES = frozenset({"P19", "P20", "P131", "P159", "P276"})
_INSIDE = frozenset({"P131", "P17", "P30", "P706"})
_RELATION_LINES = """
works_for: P108 P54 P463 P102 P241
leads: ~P6 ~P35 ~P488 ~P57 ~P162
located_in: P131 P17 P276 P30 P706 P206 P159 P740 P403
part_of: P361 P463 ~P527 P131 ~P150 P749 ~P355 P54 P102 P118 P17 P706 P179
owns: ~P127 P355 ~P749 ~P137
made_by: P170 P178 P176 P50 P86 P57 P58 P162 P123 P112 P175 P264 P272 P676
made: ~P170 ~P178 ~P176 ~P50 ~P86 ~P57 ~P58 ~P162 ~P123 ~P112 ~P175 ~P264 ~P272 ~P676 P800 P1056
wrote: ~P50 ~P86 ~P58 ~P676 ~P170 P800
performs: ~P175 ~P161 P800
plays_for: P54 P118 ~P161
married_to: P26
born_in: P19
died_in: P20
studied_at: P69
teaches_at: P108
replaces: P1365 P155 ~P1366 ~P156
employs: ~P108 ~P54
child_of: P22 P25 ~P40
sibling_of: P3373
"""


def _relations() -> dict[str, frozenset[tuple[str, bool]]]:
    """Returns (relation, is inverse) of each predicate; a `~` marks the inverse."""
    return {
        predicate: frozenset((name.strip("~"), "~" in name) for name in names.split())
        for line in _RELATION_LINES.strip().splitlines()
        for predicate, names in [line.split(": ")]
    }


RELATIONS: Mapping[str, frozenset[tuple[str, bool]]] = _relations()
"""The relations of Wikidata that each predicate may mean."""


class Vertex(TypedDict):
    """A mention of an entity in a document."""

    name: str
    sent_id: int
    type: str


class Label(TypedDict):
    """A labeled triple: relation, indices of head and tail, sentences that are its evidence."""

    r: str
    h: int
    t: int
    evidence: list[int]


class Document(TypedDict):
    """A document of Re-DocRED."""

    title: str
    sents: list[list[str]]
    vertexSet: list[list[Vertex]]
    labels: NotRequired[list[Label]]


@dataclass
class RelationMetrics:
    """Figures of facts between names.

    Attributes:
        judged, right: facts of a mapped predicate between entities of the document; those that are labeled.
        not_judged: by reason.
        golden, found: triples that one sentence states; those that a fact states.
        errors: a line for each fact that is wrong and each triple that is missed.
    """

    judged: int = 0
    right: int = 0
    not_judged: Counter[str] = field(default_factory=Counter)
    golden: int = 0
    found: int = 0
    errors: list[str] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        """Returns the figures."""
        return {
            "judged": self.judged,
            "right": self.right,
            "precision": round(self.right / self.judged, 4) if self.judged else 0.0,
            "golden": self.golden,
            "found": self.found,
            "recall": round(self.found / self.golden, 4) if self.golden else 0.0,
            "not_judged": dict(sorted(self.not_judged.items())),
        }


def read_documents(path: Path, count: int, seed: int) -> list[Document]:
    """Returns a seeded sample of the documents of a file, in the order of the file.

    Raises:
        PalimpsestError: no such file, or it is not one of Re-DocRED.
    """
    try:
        documents = cast(list[Document], json.loads(path.read_text(encoding="utf-8")))
        is_complete = all({"title", "sents", "vertexSet"} <= d.keys() for d in documents)
    except (OSError, ValueError, AttributeError, TypeError):
        is_complete = False
    if not is_complete:
        raise PalimpsestError(f"{path}: it is no file of Re-DocRED; name dev_revised.json or test_revised.json")
    chosen = random.Random(seed).sample(range(len(documents)), min(count, len(documents)))  # noqa: S311
    return [documents[i] for i in sorted(chosen)]


def measure_relations(documents: Sequence[Document], ner: str = MODEL) -> RelationMetrics:
    """Extracts the facts of documents and compares those between names with the labels.

    Args:
        documents: of Re-DocRED.
        ner: name of the spaCy pipeline that finds names.
    """
    memories = _memories(documents)
    entities = entity_tables(memories, empty("documents"), ner=ner)
    stated = clause_facts(FactInputs(memories, entities["mentions"], entities["entities"]))
    names = {
        entity_id: [name, *(aliases or ())]
        for entity_id, name, aliases in entities["entities"].select("entity_id", "name", "aliases").iter_rows()
    }
    metrics = RelationMetrics()
    rows = stated.filter(~pl.col("is_negated")).partition_by("user_id", as_dict=True)
    for i, document in enumerate(documents):
        facts = rows.get((_user(i),), empty("clause_facts")).select("subject_id", "predicate", "object_id").unique()
        _judge(document, facts.sort("subject_id", "predicate", "object_id"), names, metrics)
    return metrics


def _judge(document: Document, facts: pl.DataFrame, names: Mapping[str, list[str]], metrics: RelationMetrics) -> None:
    """Adds the figures of one document."""
    labels = {(x["h"], x["r"], x["t"]) for x in document.get("labels", ())}
    find, stated = _VertexNames(document["vertexSet"]), set[tuple[int, str, int]]()
    for subject, predicate, target in facts.drop_nulls("object_id").iter_rows():
        head, tail = find(names[subject]), find(names[target])
        if predicate not in RELATIONS:
            metrics.not_judged[f"predicate {predicate}"] += 1
        elif head is None or tail is None:
            metrics.not_judged["a name is no entity of the document"] += 1
        else:
            possible = {
                (tail, name, head) if is_inverse else (head, name, tail) for name, is_inverse in RELATIONS[predicate]
            }
            stated |= possible
            is_right = any(t in labels or _is_in_labeled_place(t, labels) for t in possible)
            metrics.judged += 1
            metrics.right += is_right
            if not is_right:
                metrics.errors.append(
                    f"wrong   {document['title']}  {names[subject][0]} | {predicate} | {names[target][0]}"
                )
    mapped = {name for relations in RELATIONS.values() for name, _ in relations}
    for label in document.get("labels", ()):
        ends = document["vertexSet"][label["h"]], document["vertexSet"][label["t"]]
        if label["r"] in mapped and _is_stated_once(label, *ends):
            is_found = (label["h"], label["r"], label["t"]) in stated
            metrics.golden += 1
            metrics.found += is_found
            if not is_found:
                sentence = " ".join(document["sents"][label["evidence"][0]])
                metrics.errors.append(f"missed  {label['r']}  {ends[0][0]['name']} | {ends[1][0]['name']}  {sentence}")


def _is_in_labeled_place(triple: tuple[int, str, int], labels: set[tuple[int, str, int]]) -> bool:
    """Returns whether a relation to a place is labeled, of a place inside the stated one."""
    head, name, outer = triple
    inner = {t for h, r, t in labels if h == head and r == name} if name in _TO_PLACES else ()
    return any((place, r, outer) in labels for place in inner for r in _INSIDE)


def _is_stated_once(label: Label, head: Sequence[Vertex], tail: Sequence[Vertex]) -> bool:
    """Returns whether one sentence is the evidence and names both ends."""
    if len(label["evidence"]) != 1 or {head[0]["type"], tail[0]["type"]} & _NOT_NAMES:
        return False
    return all(any(m["sent_id"] == label["evidence"][0] for m in end) for end in (head, tail))


class _VertexNames:
    """Finds the vertex that a name means: the same name, else the only one that contains or is contained in it."""

    def __init__(self, vertices: Sequence[Sequence[Vertex]]):
        self._names = [{fold(m["name"]) for m in mentions} for mentions in vertices]

    def __call__(self, names: Iterable[str]) -> int | None:
        folded = {fold(n) for n in names}
        same = [i for i, own in enumerate(self._names) if own & folded]
        if not same:
            words = [frozenset(n.split()) for n in folded]
            same = [
                i
                for i, own in enumerate(self._names)
                if any(w <= o or o <= w for w in words for o in map(frozenset, map(str.split, own)))
            ]
        return same[0] if len(same) == 1 or (same and self._names[same[0]] & folded) else None


def _memories(documents: Sequence[Document]) -> pl.DataFrame:
    """Returns a memories table: pages cut between sentences, each in a scope of its own."""
    rows: list[dict[str, object]] = []
    for i, document in enumerate(documents):
        texts = [""]
        for sentence in (" ".join(words) for words in document["sents"]):
            if len(texts[-1]) + len(sentence) > _MAX_MEMORY_CHARS:
                texts.append("")
            texts[-1] = f"{texts[-1]} {sentence}".strip()
        scope = dict(zip(SCOPE, ("redocred", _user(i), ""), strict=True))
        fields = {**scope, "document_id": f"d{i}", "unit": "chunk", "title": document["title"]}
        rows += [{"memory_id": f"m{i:05}-{n}", "ordinal": n, "text": text, **fields} for n, text in enumerate(texts)]
    return conform("memories", pl.DataFrame(rows, infer_schema_length=None))


def _user(i: int) -> str:
    return f"document {i:05}"


def main(argv: list[str] | None = None) -> int:
    """Prints the figures; with `--json` one JSON object as the last line. Returns 2 on bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--ner", default=MODEL, help="name of an installed spaCy pipeline")
    parser.add_argument("--errors", action="store_true", help="a line for each fact that is wrong or missed")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        metrics = measure_relations(read_documents(args.file, args.documents, args.seed), args.ner)
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    figures = metrics.to_json()
    sys.stdout.write(
        f"precision {figures['precision']} of {metrics.judged} judged; recall {figures['recall']} of {metrics.golden}; "
        f"not judged {metrics.not_judged.total()}\n"
    )
    for reason, n in metrics.not_judged.most_common(20):
        sys.stdout.write(f"  {n:4}  {reason}\n")
    sys.stdout.writelines(f"{line}\n" for line in (metrics.errors if args.errors else ()))
    if args.json:
        sys.stdout.write(json.dumps(figures, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
