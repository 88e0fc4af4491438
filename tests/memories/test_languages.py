import polars as pl

from palimpsest.memories.languages import languages_line, memory_languages, other_languages
from palimpsest.store.tables import SCHEMAS, conform

MEMORIES = [
    ("m1", "d1", "La impresora de la oficina se atasca con el papel reciclado."),
    ("m2", "d1", "Vale, gracias."),
    ("m3", "d2", "Thanks!"),
    ("m4", "d3", "The printer in the office jams on recycled paper."),
]


def memories(**columns):
    rows = pl.DataFrame(MEMORIES, schema=["memory_id", "document_id", "text"], orient="row")
    return conform("memories", rows.with_columns(collection=pl.lit("notes"), user_id=pl.lit("ana"), **columns))


def chunks():
    rows = pl.DataFrame(MEMORIES, schema=["chunk_id", "document_id", "text"], orient="row")
    return conform("chunks", rows.with_columns(ordinal=pl.int_range(pl.len(), dtype=pl.Int64)))


def test_a_memory_has_the_language_of_its_text_else_of_its_document():
    found = memory_languages(memories(), chunks())
    assert found["language"].to_list() == ["es", "es", None, "en"]
    assert list(found.schema) == list(SCHEMAS["memories"])


def test_what_an_earlier_build_detected_is_not_read_again(monkeypatch):
    first = memory_languages(memories(), chunks())
    read = []
    monkeypatch.setattr("palimpsest.memories.languages.detect_language", lambda text: read.append(text))
    assert memory_languages(memories(), chunks(), first).equals(first)
    assert read == ["Thanks!", "Thanks!"]  # its text, then its document


def test_the_share_that_is_not_english_is_counted_where_there_is_any():
    found = memories(language=pl.Series(["es", "es", None, "en"]))
    assert other_languages(found) == {"notes": {"es": 2, "en": 1}}
    assert languages_line({"es": 2, "en": 1}) == "67% of the texts are not in English (es 2, en 1)"
    assert languages_line({"en": 999, "es": 1}).startswith("0.10% of")
    assert other_languages(memories(language=pl.lit("en"))) == {}
