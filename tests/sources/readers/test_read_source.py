import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.readers.registry import formats_by_suffix
from palimpsest.store.collection_config import Limits


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.xyz", b"words", "unknown type .xyz"), ("LICENSE", b"w\xf6rter", "unknown type without suffix"),
        ("blob", b"a\0b", "unknown type without suffix"), ("core", b"\1\2\3" * 99, "binary data"),
        ("a.md", b"\x89PNG\r\n\x1a\n", "PNG picture"), ("a.txt", b"\x1f\x8b\x08\x00", "gzip archive"),
        ("a.txt", b"\x7fELF\x02", "a program"), ("a.md", b"PK\x03\x04broken", "corrupt archive"),
        ("big.txt", b"x" * 2_000_001, "2,000,001 bytes, the limit is 2,000,000"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_rejected_with_a_reason(read, name: str, content: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read(name, content, max_bytes=2_000_000)


def test_text_without_a_suffix_is_read_file_times_never_count_and_a_pipe_a_folder_and_a_lost_link_are_rejected(
    read, tmp_path: Path
) -> None:
    (document,) = read("README", "Zoë wrote this.\n").documents
    assert (document.media_type, document.text.strip()) == ("text/plain", "Zoë wrote this.")
    formats = formats_by_suffix()
    assert {".md", ".markdown", ".txt", ".rst", ".log", ".jsonl", ".pdf", ".docx"} <= formats.keys()
    assert ".yaml" not in formats
    first = read("a.md", "# A\n\nText.\n")
    os.utime(tmp_path / "a.md", (1, 1))
    assert read_source(tmp_path / "a.md", "a.md") == first
    assert first.documents[0].source_time is None
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "link.txt").symlink_to(tmp_path / "nowhere")
    for name in ("pipe.txt", "folder.txt", "link.txt"):
        with pytest.raises(Rejected, match=r"regular|missing"):
            read_source(tmp_path / name, name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", "---\ntitle: T\nsupersedes: b.md\ndate: 2024-01-01\n---\n# H\n\nText.\n"),
        ("a.txt", "One.\n\nTwo.\n"),
        ("a.jsonl", '{"session_id":"s","speaker":"A","text":"Hi","timestamp":"2024-01-01T00:00:00Z"}\n'),
        ("c.jsonl", '{"_id":"1","title":"t","text":"x","meta":{"n":NaN}}\n'),
    ],
)
def test_a_document_survives_json(read, name: str, content: str) -> None:
    for document in read(name, content).documents:
        text = json.dumps(document.to_json(), allow_nan=False)
        text.encode("utf-8")
        assert ExtractedDocument.from_json(json.loads(text)) == document


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    suffix=st.sampled_from(sorted(formats_by_suffix())),
    head=st.sampled_from([b"", b"%PDF-1.7\n", b"PK\x03\x04", b"---\n", b'{"text": ', b"\xef\xbb\xbf", b"\xff\xfe"]),
    body=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda s: s.encode("utf-8", "surrogatepass"))),
)
def test_no_bytes_raise_anything_but_a_rejection(tmp_path: Path, suffix: str, head: bytes, body: bytes) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(head + body)
    try:
        documents = read_source(path, path.name, Limits()).documents
    except Rejected as e:
        assert str(e)
        return
    for d in documents:
        d.text.encode("utf-8")
        assert "\0" not in d.text and "\r" not in d.text
        ends = [0]
        for s in d.segments:
            assert ends[-1] <= s.char_start < s.char_end <= len(d.text)
            ends.append(s.char_end)
