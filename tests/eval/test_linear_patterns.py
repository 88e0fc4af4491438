"""Patterns that are written so that no text takes quadratic time find what their simple forms find.

How long they take is measured by `python -m tests.pathological_text`; the simple forms here are slow.
"""

import random
import re
from importlib import import_module

import pytest

# ruff: noqa: RUF001 (the marks of other scripts are meant)

# Where a pattern is, how it is applied, its simple form, and pieces of the texts.
PATTERNS = (
    ("entities.find_names.LAST_WORD", "search", r"([\w’']+)\s+[\"“‘'(]?$", ("Ana", "’", "'", '"', "(", "-")),
    (
        "entities.find_names.CODE",
        "finditer",
        r"\b(?:[A-Za-z]{1,10}[-#]\d[\w-]*|[A-Z]{1,5}-[A-Z]{1,3}\d[\w-]*|[A-Z]{2,}\d+\w*|[a-z]+(?:_[a-z0-9]+)+"
        r"|[a-z]+[A-Z]\w+|[\w-]+\.(?:py|md|js|ts|json|yaml|sql|toml))\b",
        ("AB", "ab", "-", "#", "12", "_", ".py", ".md", "."),
    ),
    (
        "entities.find_names._JOIN",
        "finditer",
        r"\s*\n\s*|\s+for(?:\s+the)?\s+",
        ("for", "the", "Ana", " for the ", "\u00a0"),
    ),
    ("entities.scope_evidence._ADDRESS", "finditer", r"\s*<[^<>]*>\s*$", ("Ana", "<", ">", "<a@b.c>", ">  ")),
    (
        "palimpsest_eval.suites.convert._WEEKDAY",
        "finditer",
        r"\s*\([A-Za-z]+\)\s*",
        ("(", ")", "(Mon)", "Mon", "1"),
    ),
    ("facts.fact_tables._IN_BRACKETS", "finditer", r"\s*\([^()]*\)$", ("(", ")", "(band)", "Rush")),
    ("index.graph_tables._AFTER_TITLE", "finditer", r"\s*\([^()]*\)\s*$", ("(", ")", "(band)", "Rush")),
    (
        "query.request.dependence._ID",
        "fullmatch",
        r"(?=\S*\d)(?=\S*[A-Z])\w+(?:[-.]\w+)+|[A-Z]{2,}\w*\d\w*",
        ["AB", "a", "1", "_", "-", ".", "A-1"],
    ),
    (
        "sources.readers.text_builder._NUMBER",
        "fullmatch",
        r"[^A-Za-z]*\d[^A-Za-z]*",
        ("1", "23", ".", "%", "a", "é"),
    ),
    (
        "sources.readers.chat_exports._EMOJI",
        "finditer",
        r"(?<![\w:/]):[a-z0-9_+'-]*[a-z+][a-z0-9_+'-]*:(?::skin-tone-\d:)?(?![\w/])",
        (":", "+", "1", "a", "_", ":+1:", ":skin-tone-2:", "/", "B"),
    ),
    (
        "sources.readers.mail_body._ADDRESS",
        "finditer",
        r"[<(\[]?(?:mailto:)?([^\s<>()\[\]]+@[^\s<>()\[\],;:]+)[>)\]]?(?:\(mailto:[^)]*\))?",
        ("ana", "@", "a@b.c", "<", ">", "(mailto:", ")", "mailto:", "[", "]", ","),
    ),
    ("text.terms._LINE_END", "fullmatch", r"[ \t]*\n[ \t]*", ("a", "\t", "\r")),
    (
        "text.sentences._MEMORY_BREAK",
        "finditer",
        r"(?<=[.!?\u2026])([\"'\u201d\u2019)\]]*)\s+(?=[\"'\u201c\u2018(\[]*[^\W_])"
        r"|\s*\n\s*(?:[-*\u2022]|\d+[.)])\s+|[ \t]*\n[ \t]*\n\s*|[ \t]*\n[ \t]*(?![a-z\s])",
        ("A", "a", ".", "?", '"', ")", "-", "* ", "1.", "12)", "\t", "\u00a0", "\r", "("),
    ),
)
SPACES = ("", "", "", "", " ", "  ", "\n", " \n", "\n\n")


def texts(pieces: tuple[str, ...] | list[str]) -> list[str]:
    """Returns 2,000 texts of up to a dozen pieces and spaces, always the same ones."""
    draw = random.Random(0)
    return [
        "".join(draw.choice(pieces) + draw.choice(SPACES) for _ in range(draw.randrange(1, 13))) for _ in range(2000)
    ]


def found(pattern: re.Pattern[str], method: str, text: str) -> list[tuple[tuple[int, int], tuple[str | None, ...]]]:
    matches = pattern.finditer(text) if method == "finditer" else [getattr(pattern, method)(text)]
    return [(m.span(), m.groups()) for m in matches if m is not None]


@pytest.mark.parametrize(("where", "method", "simple", "pieces"), PATTERNS, ids=[p[0] for p in PATTERNS])
def test_a_pattern_finds_what_its_simple_form_finds(where, method, simple, pieces):
    module, name = where.rsplit(".", 1)
    pattern = getattr(import_module(module if module.startswith("palimpsest_eval") else f"palimpsest.{module}"), name)
    plain = re.compile(simple, pattern.flags)
    both = [(found(pattern, method, text), found(plain, method, text), text) for text in texts(pieces)]
    assert [text for new, old, text in both if new != old] == []
    assert any(old for _, old, _ in both)


def test_a_want_before_a_comma_and_not_is_a_preference_wherever_it_stands():
    from palimpsest.formation.sentence_model import PREFERENCE

    plain = re.compile(r"\b(?:want|like|need)s? .+, (?:not|no) ", re.IGNORECASE)
    both = [
        (bool(PREFERENCE.search(t)), bool(plain.search(t)))
        for t in texts(["want", "needs", "like ", ", not ", ", no", "x", ","])
    ]
    assert [pair for pair in both if pair[0] != pair[1]] == []
    assert 20 < sum(old for _, old in both) < 1980


def test_a_quote_is_found_without_case_outer_marks_and_number_of_spaces_as_a_pattern_of_its_words_finds_it():
    from palimpsest.lm.engine import find_quote

    pieces = ["Ana", "ana", "\u00c9", "\u00e9", "b", ".", "\u0130", "\u00a0"]
    both = []
    for text, quote in zip(texts(pieces), reversed(texts(pieces)), strict=True):
        words = quote[:4].split()
        plain = re.search(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE) if words else None
        both.append((find_quote(text, quote[:4]), plain))
    assert [new for new, old in both if old and new != old.span()] == []
    assert any(old for _, old in both)
    assert find_quote("She said: the  GATE is shut.", "\u201cthe gate is shut\u201d") == (10, 27)
    assert find_quote("The gate is shut.", "the gate was shut") is None
