"""Phrases of a scope's texts: one content word, or two beside each other, every inflection counted as one."""

import re
from collections.abc import Iterable

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.text.stopwords import NON_TOPIC_WORDS

_PIECE = r"\p{L}[\p{L}\p{N}\-’']*[\p{L}\p{N}]|[^\s\p{L}\p{N}]|\p{N}+|\p{L}"  # noqa: RUF001
_MARK = r"\{\w+\}"
_ENDING = r"^(.{3,}?)(?:ings|ing|ies|ied|ed|es|s|e|y)(?:['’]s)?$"  # noqa: RUF001
_BEFORE_NOUNS = """
the a an our my your his her its their this that these those each every any some no of in for with on at from by about
new old first second next last own other more many few several two three four five six
"""
_STOP_STEMS = sorted({*NON_TOPIC_WORDS, *(m.group(1) for w in NON_TOPIC_WORDS if (m := re.match(_ENDING, w)))})


def phrases(texts: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, block, phrase, n, label) of every phrase of each block, how often, and how often as a noun is.

    `phrase` is the stem or stems, `label` a spelling.

    Args:
        texts: (scope, block, text): several rows of a block are read one by one.
    """
    tokens = (
        texts.lazy()
        .select(*SCOPE, "block", word=pl.col("text").str.replace_all(_MARK, " ").str.extract_all(_PIECE))
        .with_row_index("row")
        .explode("word")
        .drop_nulls("word")
        .with_columns(
            low=pl.col("word").str.to_lowercase().str.replace(r"['’]s$", ""),  # noqa: RUF001
            big=pl.col("word").str.contains(r"^\p{Lu}"),
            first=pl.col("row") != pl.col("row").shift(1, fill_value=-1),
        )
        .with_columns(stem=pl.col("low").str.replace(_ENDING, "${1}"))
        .with_columns(
            good=pl.col("low").str.contains(r"^\p{L}[\p{L}\p{N}\-]+$")
            & pl.col("low").str.len_chars().is_between(3, 24)
            & ~pl.col("stem").is_in(_STOP_STEMS),
            led=~pl.col("first") & pl.col("low").shift(1).is_in(_BEFORE_NOUNS.split()),
            within=~pl.col("first") & pl.col("low").shift(1).str.contains(r"^\p{L}"),
        )
        .with_columns(
            pair=pl.col("good") & pl.col("good").shift(-1) & ~pl.col("first").shift(-1, fill_value=True),
            next_stem=pl.col("stem").shift(-1),
            next_word=pl.col("word").shift(-1),
            next_big=pl.col("big").shift(-1),
        )
        .filter("good")
    )
    one = tokens.select(
        *SCOPE,
        "block",
        phrase="stem",
        label=pl.col("word").str.replace(r"['’]s$", ""),  # noqa: RUF001
        noun=pl.col("led") | (pl.col("big") & pl.col("within")),
    )
    two = tokens.filter("pair").select(
        *SCOPE,
        "block",
        phrase=pl.format("{} {}", "stem", "next_stem"),
        label=pl.format("{} {}", "word", "next_word"),
        noun=pl.col("led") | (pl.col("big") & pl.col("next_big")),
    )
    found = pl.concat([one, two]).group_by(*SCOPE, "block", "phrase", "label")
    return found.agg(n=pl.len(), noun=pl.col("noun").sum()).collect()


def labels(found: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, phrase, label, capitals, nouns): the commonest spelling, and shares of all occurrences.

    `capitals` is the share with a capital, `nouns` of those after an article or the like: there is no tagger here.
    """
    spelled = found.group_by(*SCOPE, "phrase", "label").agg(pl.col("n").sum(), pl.col("noun").sum())
    capital = pl.col("label").str.contains(r"^\p{Lu}")
    return (
        spelled.sort(*SCOPE, "phrase", "n", "label", descending=[False] * len(SCOPE) + [False, True, True])
        .group_by(*SCOPE, "phrase", maintain_order=True)
        .agg(
            pl.col("label").first(),
            capitals=pl.col("n").filter(capital).sum() / pl.col("n").sum(),
            nouns=pl.col("noun").sum() / pl.col("n").sum(),
        )
    )


def stems(words: Iterable[str]) -> set[str]:
    """Returns the stems of words, as `phrases` makes them."""
    frame = pl.DataFrame({"word": sorted(set(words))}, schema={"word": pl.String})
    return set(frame.select(pl.col("word").str.to_lowercase().str.replace(_ENDING, "${1}")).to_series())
