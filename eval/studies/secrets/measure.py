"""Measures how many secrets of a labelled set are found, and how often something clean is taken for one."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from palimpsest.eval.studies.secrets import templates
from palimpsest.eval.studies.secrets.secret_values import LOOKALIKES, SECRETS
from palimpsest.sources.filters.redact_documents import redact_text

_TIMES = 4  # draws of each template with a secret
_CLEAN_TIMES = 8
_LEFT = 0.5  # a secret of which more than this share is still there was not found


@dataclass(frozen=True)
class Example:
    """A text, the kind of what it holds, and the secret; None where it holds none."""

    kind: str
    text: str
    secret: str | None


@dataclass(frozen=True)
class Figures:
    """What was measured.

    Attributes:
        found: (found, all) secrets by kind.
        alarms: clean texts that something was taken out of.
        clean: number of clean texts.
        missed: texts whose secret was not found.
    """

    found: Mapping[str, tuple[int, int]]
    alarms: tuple[Example, ...]
    clean: int
    missed: tuple[Example, ...]

    @property
    def recall(self) -> float:
        """Share of the secrets that were found."""
        return sum(n for n, _ in self.found.values()) / sum(n for _, n in self.found.values())

    @property
    def false_alarms(self) -> float:
        """Share of the clean texts that something was taken out of."""
        return len(self.alarms) / self.clean


def examples(held_out: bool) -> list[Example]:
    """Returns one half of the labelled set; the other half has other sentences and another seed."""
    draw = random.Random(303 if held_out else 101)  # noqa: S311 (not for security)
    t = templates
    told = [t.HELD] if held_out else [t.TUNE, t.SEEN]
    clean = [t.HELD_CLEAN] if held_out else [t.TUNE_CLEAN, t.SEEN_CLEAN]
    out = []
    for kind, template in _each(told, _TIMES):
        secret = SECRETS[kind](draw)
        out.append(Example(kind, template.format(v=secret), secret))
    for kind, template in _each(clean, _CLEAN_TIMES):
        out.append(Example(kind, template.format(v=LOOKALIKES[kind](draw)), None))
    return out


def _each(sets: Sequence[Mapping[str, Sequence[str]]], times: int) -> Iterator[tuple[str, str]]:
    for told in sets:
        for kind in sorted(told):
            for template in told[kind]:
                yield from [(kind, template)] * times


def measure(found_in: list[Example]) -> Figures:
    """Returns the figures of the detector on labelled texts: a secret is found where no large part of it is left."""
    counts: dict[str, tuple[int, int]] = {}
    missed, alarms, clean = [], [], 0
    for example in found_in:
        left = redact_text(example.text)
        if example.secret is None:
            clean += 1
            alarms += [example] if left != example.text else []
            continue
        size = max(3, int(_LEFT * len(example.secret)))
        gone = not any(example.secret[i : i + size] in left for i in range(len(example.secret) - size + 1))
        n, of = counts.get(example.kind, (0, 0))
        counts[example.kind] = (n + gone, of + 1)
        missed += [] if gone else [example]
    return Figures(counts, tuple(alarms), clean, tuple(missed))
