import pytest

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.text_files import text_segments

GERMAN = "Die Größe des Gebäudes übertrifft die Erwartungen der Bürger völlig. " * 5
JAPANESE = "これは日本語の文章です。会議は明日の午後三時に始まります。" * 5
RUSSIAN = "Собрание начнется завтра в три часа дня, просьба не опаздывать. " * 5


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "utf-8"), (GERMAN, "utf-8-sig"), (GERMAN, "cp1252"), (GERMAN, "utf-16"), (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"), (GERMAN, "utf-32"), (JAPANESE, "shift_jis"), (JAPANESE, "euc_jp"), (RUSSIAN, "koi8-r"),
        (RUSSIAN, "cp1251"),
    ],
)  # fmt: skip
def test_encodings_are_recognised(read, text: str, encoding: str) -> None:
    assert read("a.txt", text.encode(encoding)).documents[0].text == text


@pytest.mark.parametrize("text", ["Malmö", "20 °C in the room", "Señor García lives in Málaga.", "¿Dónde está?", "£30"])
def test_a_few_accents_in_latin_text_are_read_as_windows_1252(read, text: str) -> None:
    assert read("a.txt", f"Note: {text}".encode("cp1252")).documents[0].text == f"Note: {text}"


def test_line_ends_are_normalised_and_a_late_special_character_decides_the_encoding(read) -> None:
    text = "plain words only. " * 10_000 + GERMAN
    assert read("a.txt", text.encode("cp1252")).documents[0].text == text
    assert read("a.txt", "\ufeffone\r\ntwo\rth\0ree\n".encode()).documents[0].text == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no bytes"), (b" \n\t\r\n ", "holds no text"), (b"\0\0\0", "binary|no text"),
        (bytes(range(256)) * 40, "binary data"), (b"\xff\xfea", "corrupt utf-16"),
    ],
)  # fmt: skip
def test_what_is_not_text_is_rejected_with_its_reason(read, content: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read("a.txt", content)


def test_paragraphs_and_headings_are_found_in_text_up_to_the_limit(read) -> None:
    text = "=====\nTitle\n=====\n\nIntro line one\nline two\n\nPart\n----\nBody.\n\n  \n\nLast.\n"
    assert [(s.kind, s.heading, text[s.char_start : s.char_end]) for s in text_segments(text)] == [
        ("heading", "Title", "=====\nTitle\n====="),
        ("prose", "Title", "Intro line one\nline two"),
        ("heading", "Title > Part", "Part\n----"),
        ("prose", "Title > Part", "Body."),
        ("prose", "Title > Part", "Last."),
    ]
    (document,) = read("a.adoc", "= Book\n== One\nWords of one.\n\n=== Part\n\nWords of part.\n").documents
    assert [(s.kind, s.heading, document.text[s.char_start : s.char_end]) for s in document.segments] == [
        ("heading", "Book", "= Book"), ("heading", "Book > One", "== One"), ("prose", "Book > One", "Words of one."),
        ("heading", "Book > One > Part", "=== Part"), ("prose", "Book > One > Part", "Words of part."),
    ]  # fmt: skip
    with pytest.raises(Rejected, match="5,000 characters of text, the limit is 1,000"):
        read("a.txt", "x" * 5000, max_chars=1000)
