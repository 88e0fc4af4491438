"""The checked-in labeled pairs: those of data/golden/pairs.jsonl, and those of each domain in data/golden/pairs."""

from palimpsest.relations.classify.pairs_file import PairRow, read_pairs_file
from palimpsest.store.home import data_file


def golden_pairs(split: str) -> list[PairRow]:
    """Returns the pairs of data/golden/pairs.jsonl of a split: train or test."""
    return [r for r in read_pairs_file(data_file("golden/pairs.jsonl"), "golden pairs") if r["split"] == split]


def written_pairs(split: str) -> list[PairRow]:
    """Returns the pairs of the domains of a split, sorted by domain; no domain is in both splits."""
    files = sorted(data_file("golden/pairs").glob("*.jsonl"))
    return [r for path in files for r in read_pairs_file(path, "golden pairs") if r["split"] == split]
