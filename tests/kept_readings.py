"""What chooser and judge read, kept between the builds of a test process: many build the same few notes."""

from palimpsest.relations.labelers.change_encoder import ChangeEncoder, ChangeInput, ChangeReading

_readings: dict[tuple[object, ...], ChangeReading] = {}
_run = ChangeEncoder._run


def read_once(encoder: ChangeEncoder, given: ChangeInput) -> ChangeReading:
    """Returns what the encoder reads of an input: a pure function of its weights and the input."""
    key = (encoder.key, *given.ids, *((s.start, s.end, *s.chars) for s in given.slots))
    if key not in _readings:
        _readings[key] = _run(encoder, given)
    return _readings[key]
