import itertools

from hypothesis import given
from hypothesis import strategies as st

from palimpsest.relations.labelers.rule_facts import read_value, refines, replaces, same_value
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import content_words, fold


def sentences(text):
    return [text[a:b] for a, b in memory_sentence_spans(text)]


def test_sentences_end_where_they_end_and_content_words_leave_out_what_is_none():
    assert sentences("Dr. Smith pays 3.5 percent, e.g. in Rome. He left!  Why? ") == [
        "Dr. Smith pays 3.5 percent, e.g. in Rome.",
        "He left!",
        "Why?",
    ]
    assert sentences("Next\n\n- item one\n2. item two\nThe warranty is two\nyears.") == [
        "Next", "item one", "item two", "The warranty is two\nyears.",
    ]  # fmt: skip
    text = "Well, {vocalsound} on Monday I met São Paulo's 3 engineers in May."
    assert content_words(text) == {"met", "sao", "paulo", "3", "engineers"}


@given(st.text(max_size=200))
def test_sentence_spans_are_ordered_trimmed_and_lose_no_letter(text):
    spans = memory_sentence_spans(text)
    assert all(a < b and not text[a].isspace() and not text[b - 1].isspace() for a, b in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


@given(st.text(max_size=80))
def test_folding_twice_changes_no_word(text):
    assert content_words(fold(text)) == content_words(text)


def test_values_that_are_written_differently_are_one_and_replace_one_of_their_kind():
    same = [
        ("nine", "9"), ("3 pm", "15:00"), ("1,000 euros", "1000 euros"), ("May 3, 2024", "3 May 2024"),
        ("noon", "12:00"), ("2024-05-03", "3rd of May 2024"), ("3 May", "3 May 2024"), ("the office", "office"),
    ]  # fmt: skip
    for a, b in same:
        assert same_value(read_value(a), read_value(b)), (a, b)
    for a, b in (("3 pm", "3 am"), ("3 May 2023", "3 May 2024"), ("9 minutes", "9 hours")):
        assert not same_value(read_value(a), read_value(b)), (a, b)
    for new, old in (("9 May", "3 May"), ("45 days", "30 days"), ("Oslo", "Rome"), ("10:00", "9:30 am")):
        assert replaces(read_value(new), read_value(old), cue=False), (new, old)
    for new, old in (
        ("9 May", "May"),
        ("9 May", "soon"),
        ("30 minutes", "30 days"),
        ("Lyon", "France"),
        ("Ben Ott", "Ben"),
    ):
        assert not replaces(read_value(new), read_value(old), cue=False), (new, old)
    assert refines(read_value("9 May"), read_value("May")) and not refines(read_value("9 May"), read_value("3 May"))
