import polars as pl

from palimpsest.memories.documents import without_repeated_quotes


def kept(*rows: tuple[str, str, bool, str]) -> list[str]:
    """Each row: document_id, project_id, whether it is a quote, text."""
    frame = pl.DataFrame(
        [
            {
                "document_id": i,
                "user_id": "u",
                "project_id": p,
                "is_current": True,
                "text": text,
                "metadata": '{"quoted_in": "a.eml"}' if quote else "{}",
            }
            for i, p, quote, text in rows
        ]
    )
    return without_repeated_quotes(frame)["document_id"].to_list()


def test_quotes_that_a_source_of_their_project_has_or_that_are_equal_are_left_out():
    mail = ("mail", "", False, "Hello,\nthe tank holds 40 litres\nas of today.")
    assert kept(mail, ("q1", "", True, "The tank holds  40 litres"), ("q2", "", True, "It holds 30.")) == ["mail", "q2"]
    assert kept(("a", "", True, "The tank leaks."), ("b", "", True, "the tank\nleaks.")) == ["a"]
    assert kept(("mail", "alpha", False, "The tank leaks."), ("q", "beta", True, "The tank leaks.")) == ["mail", "q"]
