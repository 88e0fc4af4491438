"""How two texts compare, statement by statement: the pair of statements that is closest, and what differs in it."""

from functools import lru_cache

import numpy as np

from palimpsest.relations.classify.encoder.word_vectors import cosine
from palimpsest.relations.classify.features.parse import Parse
from palimpsest.relations.classify.statements.read_statements import read_statements
from palimpsest.relations.classify.statements.slot_names import slot_names
from palimpsest.relations.classify.statements.statement import EXCLUSIVE, Modality, Statement, ValueType

_read = lru_cache(maxsize=65_536)(read_statements)
_NOTHING = Statement(
    *(frozenset[str](),) * 3, ValueType.NONE, *(frozenset[str](),) * 2, False, False, False, Modality.STATED
)
_MODALITIES = tuple(m for m in Modality if m is not Modality.STATED)


def compare_statements(older: Parse, newer: Parse) -> dict[str, float]:
    """Returns features of the closest statements of two texts, by name; the same names for every pair."""
    pairs = [(_closeness(o, n), -i, -j, o, n) for i, o in enumerate(_read(older)) for j, n in enumerate(_read(newer))]
    _, _, _, o, n = max(pairs, key=lambda p: p[:3], default=(0.0, 0, 0, _NOTHING, _NOTHING))
    slots = slot_names(o.slot | o.subject), slot_names(n.slot | n.subject)
    f = {
        "slot_named": float(bool(slots[0])) + float(bool(slots[1])),
        "slot_same": float(bool(slots[0] & slots[1])),
        "slot_other": float(all(slots) and not slots[0] & slots[1]),
        "subject_cosine": cosine(o.subject, n.subject),
        "slot_cosine": cosine(o.slot, n.slot),
        "value_cosine": cosine(o.value, n.value),
        "slot_and_value_cosine": cosine(o.slot | o.value, n.slot | n.value),
        "statement_closeness": _closeness(o, n),
        "value_shared": _jaccard(o.value, n.value),
        "value_kept": _share(o.value, n.value),
        "value_type_same": float(o.value_type is n.value_type),
        "value_excludes": float(o.value_type is n.value_type and n.value_type in EXCLUSIVE and not (o.value & n.value)),
        "time_shared": _jaccard(o.time, n.time) if o.time or n.time else -1.0,
        "condition_older": float(len(o.condition)),
        "condition_newer": float(len(n.condition - o.condition)),
        "polarity_differs": float(o.is_negated != n.is_negated),
        "ended_newer": float(n.is_ended and not o.is_ended),
        "changed_newer": float(n.is_changed),
    }
    f |= {f"{m.value}_newer_clause": float(n.modality is m) for m in _MODALITIES}
    f |= {f"{m.value}_older_clause": float(o.modality is m) for m in _MODALITIES}
    f |= {f"value_is_{t.value}": float(n.value_type is t) for t in ValueType}
    return f


def _closeness(o: Statement, n: Statement) -> float:
    """Returns how far two statements are about one slot of one subject, from 0 on; at most 3."""
    subject = max(_jaccard(o.subject, n.subject), cosine(o.subject, n.subject))
    slot = max(_jaccard(o.slot, n.slot), cosine(o.slot | o.value, n.slot | n.value))
    return float(np.round(subject + slot + _jaccard(o.subject | o.slot | o.value, n.subject | n.slot | n.value), 4))


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def _share(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a) if a else 0.0
