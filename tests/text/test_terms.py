from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.text.terms import MAX_QUERY_TERMS, query_terms, terms, text_terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The launches were moved", ["launch", "move"]), ("RFC-2119", ["rfc", "2119", "rfc-2119"]),
        ("v2.0.1", ["v2", "0", "1", "v2.0.1"]), ("snake_case", ["snake", "case", "snake_cas"]),
        ("DiffExecutor", ["diff", "executor", "diffexecutor"]),
        ("parseHTTPResponse", ["pars", "http", "respons", "parsehttprespons"]), ("Café naïve", ["cafe", "naiv"]),
        ("well-known", ["well", "known"]), ("from 2004 to 2005", ["from", "2004", "2005"]), ("Москва", ["москва"]),
        ("", []), ("... !?", []),
    ],
)  # fmt: skip
def test_words_of_a_text_are_folded_stemmed_and_split_into_parts(text, expected):
    assert [t for t in terms(text) if t not in {"v"}] == expected


def test_a_query_term_counts_once_and_threads_get_the_same_terms():
    assert query_terms("bees, bees and more bees") == ["bee", "more"]
    assert len(query_terms(" ".join(f"w{i}x" for i in range(5000)))) == MAX_QUERY_TERMS
    texts = [f"running{i} jumps over{i} the lazier{i} dogs" for i in range(200)]
    alone = [terms(t) for t in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms, texts * 4)) == alone * 4


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("es", "La educación, las educaciones", ["la", "educ", "las", "educ"]),
        ("es", "Trabajó; trabajo", ["trabaj", "trabaj"]), ("de", "Die Büchereien", ["die", "bucherei"]),
        ("zh", "猫", ["猫"]), ("zh", "GPU服务器", ["gpu", "服务", "务器", "服", "务", "器"]),
        ("ja", "かぎは青い", ["かぎ", "ぎは", "は青", "青い", "青"]), ("ko", "한국에서", ["한국", "국에", "에서"]),
        ("th", "บ้าน", ["บา", "าน"]), ("hi", "किताबें", ["किताब"]), ("uk", "Книжки", ["книжки"]),
        ("en", "한국 ガラス", ["한국", "ガラ", "ラス"]),
    ],
)  # fmt: skip
def test_words_are_stemmed_in_their_language_and_scripts_without_spaces_are_cut(language, text, expected):
    assert terms(text, language) == expected


def test_a_text_of_unclear_language_is_found_by_the_words_of_each():
    assert text_terms("trabajamos mucho", ["en", "es"]) == ["trabajamo", "mucho", "trabaj", "much"]
    assert text_terms("the bees", ["en"]) == terms("the bees")
    assert query_terms("Carlos", ["en", "es"]) == ["carlo", "carl"]


@given(st.text(), st.sampled_from(["en", "es", "hi", "pl", "th", "zh"]))
def test_any_text_gives_short_terms_and_the_same_ones_again(text, language):
    found = terms(text, language)
    assert found == terms(text, language)
    assert all(0 < len(t) <= 64 for t in found)


@given(st.lists(st.sampled_from(["hive", "launching", "RFC-2119", "snake_case", "budget"]), max_size=8))
def test_every_word_of_a_query_is_found_under_the_terms_of_the_text_that_holds_it(words):
    assert set(query_terms(" ".join(words))) <= set(terms("so: " + ", ".join(words)))
