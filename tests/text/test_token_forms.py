"""Parts of speech and lemmas that are computed once a word equal those that spaCy computes in each text."""

import importlib
from pathlib import Path

from palimpsest.text.parse import MODEL, parse_texts, parsed_text
from palimpsest.text.token_forms import TokenForms

DEMO = Path(__file__).parents[2] / "data" / "corpora"
CONTEXTS = [
    "I'm gonna go. You gotta see it.",
    "Let's meet there; there's a bus, and there were two.",
    "It ain't mine. I ain't late.",
    "C'mon, y'all do what you did: have you had it?",
    "She gets what he got. \n\n He has done it, or would've.",
]


def test_forms_equal_those_of_the_whole_pipeline():
    documents = sorted(path for path in DEMO.rglob("*.md"))
    texts = CONTEXTS + [text for path in documents for text in path.read_text(encoding="utf-8").split("\n\n")][:100]
    assert len(texts) > 100
    whole = importlib.import_module(MODEL).load(exclude=["ner", "senter"])
    for text, doc, found in zip(texts, whole.pipe(map(parsed_text, texts)), parse_texts(texts), strict=True):
        tokens = [token for token in doc if not token.is_space]
        assert found.pos == tuple(token.pos_ for token in tokens), text
        assert found.lemmas == tuple(token.lemma_.lower() for token in tokens), text


def test_many_words_are_not_all_kept(monkeypatch):
    monkeypatch.setattr("palimpsest.text.token_forms._MAX_KEPT", 4)
    parser = importlib.import_module(MODEL).load(exclude=["ner", "senter"])
    forms = TokenForms(parser)
    for _ in range(2):
        (found,) = forms.of([parser("The pumps failed.")])
        assert [form.lemma for form in found] == ["the", "pump", "fail", "."]
        (found,) = forms.of([parser("Both valves were open.")])
        assert [form.lemma for form in found] == ["both", "valve", "be", "open", "."]
        assert len(forms._known) <= 5
