"""Tables of text."""

import pytest

from palimpsest.core.errors import Rejected
from tests.sources.segment_texts import segment_texts


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_table_is_found(read, delimiter: str) -> None:
    rows = [["name", "note, or not"], ["Ana", "a; b"], ["Bo", ""]]
    text = "\n".join(delimiter.join(f'"{c}"' if delimiter in c else c for c in row) for row in rows)
    (document,) = read("a.csv", text).documents
    assert document.text == "| name | note, or not |\n| Ana | a; b |\n| Bo |"
    assert document.metadata == {"rows": 3, "columns": 2}


def test_a_long_table_repeats_its_header_keeps_rows_of_another_length_and_has_a_limit(read) -> None:
    rows = "".join(f"{i},value number {i}\n" for i in range(500))
    (document,) = read("a.csv", f"id,value\n{rows}").documents
    blocks = [text for _, _, text in segment_texts(document)]
    assert len(blocks) > 5 and all(b.startswith("| id | value |\n") for b in blocks)
    assert sum(b.count("\n") for b in blocks) == 500
    extraction = read("a.csv", "a,b\n1,2\n3,4,5\n")
    assert extraction.problems == () and extraction.documents[0].metadata == {"rows": 3, "columns": 2}
    assert "| 3 | 4 | 5 |" in extraction.documents[0].text
    with pytest.raises(Rejected, match="more than 10 rows"):
        read("a.csv", "a,b\n" * 11, max_rows=10)
