"""Finds secrets in a text."""

from dataclasses import dataclass
from itertools import chain

from palimpsest.sources.secrets.account_numbers import find_numbers
from palimpsest.sources.secrets.secret_assignments import find_assignments
from palimpsest.sources.secrets.secret_table_cells import find_table_secrets
from palimpsest.sources.secrets.secret_tokens import find_tokens


@dataclass(frozen=True, slots=True, order=True)
class Secret:
    """The span of a secret in a text, end exclusive, and its kind; never the secret itself."""

    start: int
    end: int
    kind: str


def find_secrets(text: str) -> list[Secret]:
    """Returns the secrets of a text, by place; none overlaps another.

    Of those that overlap, what is known by its form names the kind; their spans are joined.
    """
    found = [(s, e, 0, k) for s, e, k in chain(find_tokens(text), find_numbers(text))]
    found += [(s, e, 1, k) for s, e, k in chain(find_assignments(text), find_table_secrets(text))]
    out: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted(found):
        if out and start < out[-1][1]:
            before = out[-1]
            rank, kind = min((before[2], before[3]), (rank, kind))
            out[-1] = (before[0], max(end, before[1]), rank, kind)
        else:
            out.append((start, end, rank, kind))
    return [Secret(start, end, kind) for start, end, _, kind in out]


def shorten_value(value: object, most: int = 40) -> str:
    """Returns the beginning of a value for a message; what is cut off a secret would no longer be known as one."""
    text = str(value)
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}[redacted: {secret.kind}]{text[secret.end :]}"
    return text[:most]
