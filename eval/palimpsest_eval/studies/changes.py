"""Changes that are stated in plain words: how many older memories a build retired, and how many that are still true.

`python -m palimpsest_eval.studies.changes --home HOME` reads the lines of data/golden/relations.jsonl with a `kind`:
`plain` is a change, whose older memory should be retired; `trap` only looks like one, so that its older memory is still
true. Prints both counts by collection, and each line that the build got wrong.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.store.builds import kept
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder
from palimpsest_eval.golden.build_tables import Tables, retired_ids
from palimpsest_eval.golden.resolve import QuoteIndex
from palimpsest_eval.labels.register import RegisterRelation, read_register, register_path

CHANGE, TRAP = "plain", "trap"
NO_PAIR = "no candidate pair"
_TABLES = ("documents", "document_texts", "memories", "versions", "relations")


@dataclass(frozen=True)
class RegisteredChange:
    """A line of the register in a build.

    Attributes:
        id: of the line.
        collection: of the line.
        kind: `plain` or `trap`.
        retired: whether every memory that shows the older quote is retired.
        label: from the newer memory to the older one, several where a quote has several memories; `no candidate pair`
            where the build compared no such pair.
    """

    id: str
    collection: str
    kind: str
    retired: bool
    label: str

    @property
    def is_right(self) -> bool:
        """Whether the older memory is retired, as a change needs, or is not, as a trap needs."""
        return self.retired == (self.kind == CHANGE)


def measure_changes(tables: Tables, relations: Sequence[RegisterRelation]) -> list[RegisteredChange]:
    """Returns the changes and traps whose quotes are in the build, in the order of the register.

    Args:
        tables: documents, document_texts, memories, versions and relations of a build.
        relations: the register.
    """
    wanted = [r for r in relations if r.kind in (CHANGE, TRAP)]
    uris = {c: {q.uri for r in wanted if r.collection == c for q in (r.newer, *r.older)} for c in _collections(wanted)}
    indexes = {collection: QuoteIndex(tables, collection, found) for collection, found in uris.items()}
    retired, labels = retired_ids(tables), dict[tuple[str, str], str]()
    for newer_id, older_id, label in tables["relations"].select("newer_id", "older_id", "label").iter_rows():
        labels[newer_id, older_id] = label
    changes = []
    for r in wanted:
        newer, older = (indexes[r.collection].find_memories(quote, r.user) for quote in (r.newer, r.older[0]))
        if not isinstance(newer, str) and not isinstance(older, str):
            found = sorted({labels[n, o] for n in newer for o in older if (n, o) in labels})
            label = ", ".join(found) or NO_PAIR
            changes.append(RegisteredChange(r.id, r.collection, str(r.kind), older <= retired, label))
    return changes


def report_changes(changes: Sequence[RegisteredChange]) -> str:
    """Returns the counts by kind and collection, then a line for each that is wrong."""
    lines = []
    for kind, title in ((CHANGE, "changes: older memory retired"), (TRAP, "traps: retired though still true")):
        of_kind = [c for c in changes if c.kind == kind]
        shares = [(c, [x.retired for x in of_kind if x.collection == c]) for c in _collections(of_kind)]
        parts = ", ".join(f"{c} {sum(found)} of {len(found)}" for c, found in shares)
        lines.append(f"{title}: {sum(c.retired for c in of_kind)} of {len(of_kind)} ({parts})")
    lines += [f"{c.kind}  {c.id}  {c.collection}  {c.label}" for c in changes if not c.is_right]
    return "\n".join(lines)


def _collections(rows: Sequence[RegisterRelation] | Sequence[RegisteredChange]) -> list[str]:
    return sorted({r.collection for r in rows})


def _to_json(changes: Sequence[RegisteredChange]) -> JsonObject:
    found = {kind: [c.retired for c in changes if c.kind == kind] for kind in (CHANGE, TRAP)}
    return {kind: {"retired": sum(retired), "of": len(retired)} for kind, retired in found.items()}


def main(argv: list[str] | None = None) -> int:
    """Prints the report of the newest build; with `--json` one JSON object as the last line. Returns 2 on bad input."""  # noqa: DOC501 (caught, becomes the exit code)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME)
    parser.add_argument("--register", type=Path, help="another file than data/golden/relations.jsonl")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        builds = kept(Home(args.home))
        if not builds:
            raise PalimpsestError(f"home {args.home}: it has no build; run palimpsest build first")
        relations = read_register(args.register or register_path(data_folder()))
        changes = measure_changes(builds[-1].tables(_TABLES), relations)
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    sys.stdout.write(report_changes(changes) + "\n")
    if args.json:
        sys.stdout.write(json.dumps(_to_json(changes), sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
