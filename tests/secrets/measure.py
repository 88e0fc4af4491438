"""Measures how many secrets of a labelled set are found, and how often a clean text is taken for one."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from palimpsest.sources.storage_policy import redact_text
from tests.secrets.held_out_templates import HELD_OUT, HELD_OUT_CLEAN
from tests.secrets.secret_values import LOOKALIKES, SECRETS
from tests.secrets.tuning_templates import SEEN, SEEN_CLEAN, TUNE, TUNE_CLEAN

_SECRET_DRAWS, _CLEAN_DRAWS = 4, 8  # of each template
_MAX_SHARE_LEFT = 0.5  # of a secret that counts as found


@dataclass(frozen=True)
class Example:
    """A text, the kind of the value in it, and the secret; None where the value is no secret."""

    kind: str
    text: str
    secret: str | None


@dataclass(frozen=True)
class DetectionMetrics:
    """How well secrets are detected.

    Attributes:
        found: (found, all) secrets by kind.
        alarms: clean texts that were redacted.
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
        """Share of the clean texts that were redacted."""
        return len(self.alarms) / self.clean


def examples(held_out: bool) -> list[Example]:
    """Returns one half of the labelled set; the other half has other sentences and another seed."""
    draw = random.Random(303 if held_out else 101)
    secret_templates = [HELD_OUT] if held_out else [TUNE, SEEN]
    clean_templates = [HELD_OUT_CLEAN] if held_out else [TUNE_CLEAN, SEEN_CLEAN]
    out = []
    for kind, template in _repeat(secret_templates, _SECRET_DRAWS):
        secret = SECRETS[kind](draw)
        out.append(Example(kind, template.format(v=secret), secret))
    for kind, template in _repeat(clean_templates, _CLEAN_DRAWS):
        out.append(Example(kind, template.format(v=LOOKALIKES[kind](draw)), None))
    return out


def _repeat(sets: Sequence[Mapping[str, Sequence[str]]], times: int) -> Iterator[tuple[str, str]]:
    """Yields (kind, template), each as often as given."""
    for templates in sets:
        for kind in sorted(templates):
            for template in templates[kind]:
                yield from [(kind, template)] * times


def measure_detection(labelled: Sequence[Example]) -> DetectionMetrics:
    """Returns the metrics of the detector on labelled texts: a secret is found where no large part of it is left."""
    counts: dict[str, tuple[int, int]] = {}
    missed, alarms, clean = [], [], 0
    for example in labelled:
        left = redact_text(example.text)
        if example.secret is None:
            clean += 1
            alarms += [example] if left != example.text else []
            continue
        size = max(3, int(_MAX_SHARE_LEFT * len(example.secret)))
        gone = not any(example.secret[i : i + size] in left for i in range(len(example.secret) - size + 1))
        found, total = counts.get(example.kind, (0, 0))
        counts[example.kind] = (found + gone, total + 1)
        missed += [] if gone else [example]
    return DetectionMetrics(counts, tuple(alarms), clean, tuple(missed))
