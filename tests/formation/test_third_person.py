"""Sentences in the first person read as statements about the speaker: contracted verbs in full."""

import pytest

from palimpsest.formation.rules import third_person
from palimpsest.text.parse import parse_texts


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("I'd moved to Ghent before the strike.", "Ann had moved to Ghent before the strike."),
        ("I'd already sold the boat.", "Ann had already sold the boat."),
        ("I'd never seen the canal.", "Ann had never seen the canal."),
        ("I'd been a tester at Basin.", "Ann had been a tester at Basin."),
        ("I'd been hired by Basin.", "Ann had been hired by Basin."),
        ("I'd better go.", "Ann had better go."),
        ("We'd moved to Ghent.", "Ann and others had moved to Ghent."),
        ("I'd like tea.", "Ann would like tea."),
        ("I'd rather stay.", "Ann would rather stay."),
        ("I'd have moved.", "Ann would have moved."),
        ("I'd be hired by Basin.", "Ann would be hired by Basin."),
        ("We'd love to come.", "Ann and others would love to come."),
    ],
)
def test_a_contracted_auxiliary_is_had_before_a_participle_and_would_before_an_infinitive(text, statement):
    (parse,) = parse_texts([text])
    assert third_person(text, parse, "Ann") == statement
