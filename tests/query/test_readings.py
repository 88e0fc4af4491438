"""What the reader of answers read before, and the file of it."""

import numpy as np

from palimpsest.query.readings import READINGS_FILE, Readings
from palimpsest.query.request.types import Memory
from palimpsest.query.rerank import AnswerReader, reader_model


def test_what_was_read_before_is_not_read_again_and_is_the_same(tmp_path, monkeypatch):
    notes = [Memory("m", "notes", "ana", text) for text in ("Ana lives in Porto.", "The cat sleeps.")]
    plain = AnswerReader().read("Where does Ana live?", notes)
    first = Readings(reader_model())
    assert np.array_equal(AnswerReader(first).read("Where does Ana live?", notes), plain)
    first.save(path := tmp_path / READINGS_FILE)
    assert b"Porto" not in path.read_bytes() and path.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("palimpsest.query.rerank._read", None)
    again = Readings(reader_model(), path)
    assert np.array_equal(AnswerReader(again).read("Where does Ana live?", notes), plain)


def test_a_file_of_another_model_or_a_damaged_one_has_none(tmp_path):
    known = Readings("a")
    known.of("q", "line", lambda q, line: 0.5)
    known.save(path := tmp_path / READINGS_FILE)
    assert Readings("a", path).of("q", "line", lambda q, line: 1.0) == 0.5
    assert Readings("b", path).of("q", "line", lambda q, line: 1.0) == 1.0
    path.write_bytes(path.read_bytes()[:-40])
    assert Readings("a", path).of("q", "line", lambda q, line: 1.0) == 1.0
