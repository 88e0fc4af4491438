"""A deleted text as hashes, as `decisions.jsonl` keeps it."""

from dataclasses import dataclass

from palimpsest.core.needles import Needle, Needles


@dataclass(frozen=True, slots=True, order=True)
class ErasedText:
    """A deleted text as hashes: of its document, of its speaker and time (`said`), and of the text itself."""

    place: str
    said: str
    needle: Needle

    @classmethod
    def of(cls, place: str, said: str, text: str) -> "ErasedText":
        """Returns the hashes of a text at a place."""
        (needle,) = Needles.of([text], place.encode()).items
        return cls(place, said, needle)
