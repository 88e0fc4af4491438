"""A deleted text as hashes, as `decisions.jsonl` keeps it."""

from dataclasses import dataclass
from typing import NamedTuple

from palimpsest.core.needles import Needle, Needles


class Utterance(NamedTuple):
    """Hashes of who said a text and when, and of the speaker alone, which lines of earlier versions do not have."""

    said: str
    speaker: str = ""


@dataclass(frozen=True, slots=True, order=True)
class ErasedText:
    """A deleted text as hashes: of its document, of its speaker and time, and of the text itself."""

    place: str
    utterance: Utterance
    needle: Needle

    @classmethod
    def of(cls, place: str, utterance: Utterance, text: str) -> "ErasedText":
        """Returns the hashes of a text at a place."""
        (needle,) = Needles.of([text], place.encode()).items
        return cls(place, utterance, needle)
