"""The measures of reading and chunking, by hand."""

import pytest

from palimpsest.sources.extracted import ExtractedDocument
from palimpsest_eval.studies.chunking import fixed_size_chunker
from palimpsest_eval.studies.reading_files import format_results, measure_reading, token_f1


def test_f1_counts_words_not_marks_case_or_order() -> None:
    assert token_f1("Everyone has 25 days", "## Days\n\n**everyone** [has](http://x.org/y) 25 <!-- image -->") == 1.0
    assert token_f1("a b c", "a b d") == pytest.approx(2 / 3)
    assert token_f1("a a", "a") == pytest.approx(2 / 3)
    assert token_f1("", "") == 1.0 and token_f1("a", "") == 0.0


def test_every_file_of_a_folder_is_accounted_for(tmp_path) -> None:
    for name, text in {
        "sources/a.csv": "x,y\n1,2\n",
        "groundtruth/a.csv.md": "| x | y |\n|---|---|\n| 1 | 3 |\n",
        "sources/b.bin": "?",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    results = measure_reading(tmp_path)
    assert [(r.uri, r.f1, r.reason is None) for r in results] == [
        ("groundtruth/a.csv.md", None, True),
        ("sources/a.csv", 0.75, True),
        ("sources/b.bin", None, False),
    ]
    assert [(r.format, r.read, r.median_f1) for r in format_results(results)] == [
        (".bin", 0, None),
        (".csv", 1, 0.75),
        (".md", 1, None),
    ]


def test_fixed_chunks_hold_the_same_number_of_tokens_and_overlap() -> None:
    text = " ".join(f"word{'s' * (i % 2)}" for i in range(10))
    document = ExtractedDocument(uri="a", media_type="text/plain", text=text)
    spans = fixed_size_chunker(4, 1)(document)
    assert [text[a:b].split() for a, b in spans] == [text.split()[i : i + 4] for i in (0, 3, 6)]
