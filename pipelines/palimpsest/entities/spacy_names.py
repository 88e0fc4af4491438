"""Names by a library: any installed spaCy pipeline, named by `ner:` in collection.yaml. Off unless a collection asks.

It adds to the names found by rule and marks people, organisations and places. On turns it takes as long as embedding
and gained nothing (decision 18).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.entities.find_names import MAX_NAME_CHARS, MentionCandidate, entity_key

_BATCH = 256
_CUES = {
    "PERSON": "person",
    "PER": "person",
    "ORG": "organisation",
    "NORP": "",
    "GPE": "place",
    "LOC": "place",
    "FAC": "",
    "PRODUCT": "",
    "EVENT": "",
    "WORK_OF_ART": "",
    "LAW": "",
    "MISC": "",
}


@lru_cache(maxsize=1)
def _pipeline(name: str) -> Any:
    import spacy

    try:
        return spacy.load(name)
    except OSError:
        raise PalimpsestError(
            f"collection.yaml: ner: no spaCy pipeline {name} is installed; install a package with it, or drop the field"
        ) from None


def pipeline_version(name: str) -> str:
    """Returns what a pipeline's results depend on: its name and version, and the version of spaCy.

    Raises:
        PalimpsestError: spaCy or the pipeline is not installed; the message names the fix.
    """
    import importlib.metadata

    meta = _pipeline(name).meta
    return f"{meta['lang']}_{meta['name']} {meta['version']} {importlib.metadata.version('spacy')}"


def find_library_names(texts: Sequence[str], name: str) -> Iterator[list[MentionCandidate]]:
    """Yields the names that the pipeline finds in each text, of the kinds of OntoNotes and WikiNER that name things.

    Raises:
        PalimpsestError: spaCy or the pipeline is not installed; the message names the fix.
    """
    nlp = _pipeline(name)
    for doc in nlp.pipe(texts, batch_size=_BATCH):
        found = []
        for e in doc.ents:
            surface = e.text
            key = entity_key(surface)
            if e.label_ in _CUES and key and len(surface) <= MAX_NAME_CHARS:
                start = e.start_char
                found.append(
                    MentionCandidate(
                        surface, key, "name", False, _CUES[e.label_], None, None, start, start + len(surface)
                    )
                )
        yield found
