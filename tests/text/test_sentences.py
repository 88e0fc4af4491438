# ruff: noqa: RUF001 (the marks of other scripts are meant)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.text.sentences import MAX_SENTENCE_CHARS, document_sentence_spans, skip_list_marker


def sentences(text: str) -> list[str]:
    return [text[s:e] for s, e in document_sentence_spans(text, 0, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met Mr. J. R. Jones. They left.", ["Dr. Smith met Mr. J. R. Jones.", "They left."]),
        (
            "It costs 3.50 euros. See Fig. 3 and no. 7, e.g. Tables.",
            ["It costs 3.50 euros.", "See Fig. 3 and no. 7, e.g. Tables."],
        ),
        ("The U.S. Army left at 5 p.m. Then it rained.", ["The U.S. Army left at 5 p.m.", "Then it rained."]),
        ('She said "Stop!" and left. (Really.) Yes.', ['She said "Stop!" and left.', "(Really.)", "Yes."]),
        ("Wait... what? Well… Fine.", ["Wait... what?", "Well…", "Fine."]),
        ("OK , we 're on . So just go .", ["OK , we 're on .", "So just go ."]),
        ("soft\nwrapped line. Next", ["soft\nwrapped line.", "Next"]),
        ("Intro:\n- first item\n- second item\n1. third", ["Intro:", "- first item", "- second item", "1. third"]),
        ("Para one\n\nPara two", ["Para one", "Para two"]),
        ("今日は晴れ。明日は雨！本当？", ["今日は晴れ。", "明日は雨！", "本当？"]),
        ("Due on Jan. 5 or in May. Ok", ["Due on Jan. 5 or in May.", "Ok"]),
        ("Hm. ... !!", ["Hm. ... !!"]),
        ("   ", []),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_list_markers_are_no_part_of_a_statement_and_a_sentence_without_end_is_cut_at_words() -> None:
    for text, words in (
        ("- first", "first"),
        ("12) next", "next"),
        ("> - quoted", "quoted"),
        ("plain", "plain"),
        ("- ", "- "),
    ):
        assert text[skip_list_marker(text, 0, len(text)) :] == words
    parts = sentences("word " * 2000)
    assert all(len(p) <= MAX_SENTENCE_CHARS and p.startswith("word") and p.endswith("word") for p in parts)
    assert " ".join(parts).split() == ["word"] * 2000


@given(st.text(alphabet=st.sampled_from("aB1 .!?\n\t-*|\"'()。…\u00a0é"), max_size=200))
def test_sentences_are_ordered_trimmed_and_lose_nothing(text: str) -> None:
    spans = document_sentence_spans(text, 0, len(text))
    assert all(text[s:e] == text[s:e].strip() != "" for s, e in spans)
    edges = [0, *(x for span in spans for x in span), len(text)]
    assert edges == sorted(edges)
    assert not any(text[a:b].strip() for a, b in zip(edges[::2], edges[1::2], strict=True))
