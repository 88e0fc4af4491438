"""Facts of a text: who does what to whom, by the clause that states it."""

import pytest

from palimpsest.facts.extract_facts import extract_facts
from palimpsest.facts.fact import Mentioned, Named
from palimpsest.relations.classify.features.parse import parse_texts

NAMES = {
    "Ana Brandt": "person",
    "Basin": "organisation",
    "Heron": "product",
    "Corvid": "organisation",
    "Ghent": "place",
}


def named(text: str, speaker: str = "", topic: str = "") -> Named:
    mentions = [Mentioned(name, text.index(name), text.index(name) + len(name)) for name in NAMES if name in text]
    return Named(mentions, NAMES, speaker, topic)


def facts(text: str, speaker: str = "", topic: str = "") -> set[tuple[str, str, str]]:
    """Returns (subject, predicate, other entity or value), denied ones with a `not `."""
    (parse,) = parse_texts([text])
    return {
        (f.subject, f"{'not ' if f.is_negated else ''}{f.predicate}", f.object_entity or f.value)
        for f in extract_facts(text, parse, named(text, speaker, topic))
    }


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Ana Brandt works at Basin.", ("Ana Brandt", "works_for", "Basin")),
        ("Heron was built by Corvid.", ("Heron", "made_by", "Corvid")),
        ("Basin is led by Ana Brandt.", ("Ana Brandt", "leads", "Basin")),
        ("The deadline of Heron is 12 March.", ("Heron", "deadline", "12 March")),
        ("Basin does not use Heron.", ("Basin", "not uses", "Heron")),
        ("Corvid supplies   the lithium\ncells.", ("Corvid", "supplies", "the lithium cells")),
    ],
)
def test_a_clause_states_a_fact(text, fact):
    assert fact in facts(text)


@pytest.mark.parametrize(
    "text",
    [
        "Does Ana Brandt work at Basin?",
        "Ana Brandt might work at Basin.",
        "Ana Brandt would like to work at Basin.",
        "The weather is fine.",
        "",
    ],
)
def test_what_is_asked_or_supposed_or_names_nobody_is_no_fact(text):
    assert not {f for f in facts(text) if f[1] == "works_for"} and ("weather" not in str(facts(text)))


def test_pronouns_mean_the_speaker_the_last_subject_or_the_topic():
    assert ("Ana Brandt", "works_for", "Basin") in facts("I work at Basin.", speaker="Ana Brandt")
    assert facts("I work at the mill.") == set()
    assert ("Ana Brandt", "lives_in", "Ghent") in facts("Ana Brandt left Basin. She lives in Ghent.")
    assert ("Corvid", "located_in", "Ghent") in facts("It is based in Ghent.", topic="Corvid")
    assert not any(s == "Ana Brandt" for s, *_ in facts("It is based in Ghent.", topic="Ana Brandt"))


def test_the_span_of_a_fact_has_its_clause_whatever_the_spaces():
    text = "Well,\n\n  Ana Brandt   works at Basin.  And so on."
    (parse,) = parse_texts([text])
    fact = next(f for f in extract_facts(text, parse, named(text)) if f.predicate == "works_for")
    assert "Ana Brandt   works at Basin" in text[fact.start : fact.end]
