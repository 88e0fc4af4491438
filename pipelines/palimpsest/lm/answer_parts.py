"""What programs share that ask a model for lists of objects: the schema of an answer, and how its parts are checked."""

import math
import re

from palimpsest.core.json_types import JsonObject
from palimpsest.text.words import content_words, stem_words


def object_schema(properties: JsonObject) -> JsonObject:
    """Returns the JSON schema of an object that has these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def list_schema(fields: JsonObject) -> JsonObject:
    """Returns the JSON schema of a list of objects."""
    return {"type": "array", "items": object_schema(fields)}


def stemmed_words(text: str) -> set[str]:
    """Returns the stems of the words of a text that carry meaning."""
    return set(stem_words(content_words(text)))


def numbers_in(text: str) -> set[str]:
    """Returns the runs of digits of a text."""
    return set(re.findall(r"\d+", text))


def stated_confidence(value: object, highest: float) -> float:
    """Returns the confidence that a model states, from 0 to `highest`; `highest` where it states none."""
    try:
        stated = float(str(value))
    except ValueError:
        return highest
    return round(min(highest, max(0.0, stated)), 3) if math.isfinite(stated) else highest
