"""Parses of texts."""

from palimpsest.relations.labelers.pairs_file import golden_pairs
from palimpsest.text import parse
from palimpsest.text.parse import parse_texts


def test_a_parse_does_not_depend_on_the_rest_of_its_batch():
    texts = [r["older"] for r in golden_pairs("train")[:60]]
    together = list(parse_texts(texts))
    parse._parses.clear()
    alone = [next(iter(parse_texts([t]))) for t in reversed(texts)]
    assert together == alone[::-1]
