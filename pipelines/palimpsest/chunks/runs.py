"""Which pieces may share a chunk: none that an aside divides, and none that are valid at different times."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby, zip_longest

from palimpsest.chunks.packing import Piece


def split_runs(pieces: list[Piece], asides: Sequence[int]) -> list[list[Piece]]:
    """Returns the pieces of a document in runs that are packed separately, in order; most documents are one run.

    A heading is in the run of what follows it. Headings that an aside divides from their section make no chunk: the
    heading path of the section has them.

    Args:
        pieces: of a document, in order.
        asides: where its asides begin, in order.
    """
    keys: list[tuple[object, ...]] = []
    validity: tuple[object, ...] = ()
    for piece in reversed(pieces):
        stated = piece.span.stated
        if piece.span.kind != "heading" or not keys:
            validity = (stated.valid_from, stated.valid_until) if stated else (None, None)
        keys.append((bisect_right(asides, piece.span.char_start), *validity))
    keyed = zip(reversed(keys), pieces, strict=True)
    runs = [[piece for _, piece in run] for _, run in groupby(keyed, key=lambda k: k[0])]
    return [run for run, following in zip_longest(runs, runs[1:]) if not _only_headings(run, following)]


def _only_headings(run: list[Piece], following: list[Piece] | None) -> bool:
    if following is None or any(p.span.kind != "heading" for p in run):
        return False
    path, below = run[-1].span.heading, following[0].span.heading
    return bool(path and below) and f"{below} > ".startswith(f"{path} > ")
