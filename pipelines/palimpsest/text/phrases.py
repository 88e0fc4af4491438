"""Phrases of a scope's texts: one content word, or two adjacent ones, every inflection counted as one."""

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
_BLOCKS_AT_ONCE = 4096  # a row for each of their words: all those of a million texts took 15 GB
_STOP_STEMS = sorted({*NON_TOPIC_WORDS, *(m.group(1) for w in NON_TOPIC_WORDS if (m := re.match(_ENDING, w)))})


def count_phrases(texts: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, block, phrase, label, n, noun): how often each block uses a phrase, and how often as a noun.

    `phrase` is the stem or stems, `label` a spelling. Words count as nouns by what precedes them: there is no tagger.

    Args:
        texts: (scope, block, text); a block, which is a number, may have several rows, and no phrase crosses two.
    """
    part = pl.col("block") // _BLOCKS_AT_ONCE
    parts = texts.with_columns(part=part).partition_by("part", include_key=False, maintain_order=True)
    return pl.concat(map(_count_phrases, parts)) if parts else _count_phrases(texts)


def _count_phrases(texts: pl.DataFrame) -> pl.DataFrame:
    tokens = (
        texts.lazy()
        .select(*SCOPE, "block", word=pl.col("text").str.replace_all(_MARK, " ").str.extract_all(_PIECE))
        .with_row_index("row")
        .explode("word")
        .drop_nulls("word")
        .with_columns(
            lower=pl.col("word").str.to_lowercase().str.replace(r"['’]s$", ""),  # noqa: RUF001
            capitalized=pl.col("word").str.contains(r"^\p{Lu}"),
            is_first=pl.col("row") != pl.col("row").shift(1, fill_value=-1),
        )
        .with_columns(stem=pl.col("lower").str.replace(_ENDING, "${1}"))
        .with_columns(
            is_candidate=pl.col("lower").str.contains(r"^\p{L}[\p{L}\p{N}\-]+$")
            & pl.col("lower").str.len_chars().is_between(3, 24)
            & ~pl.col("stem").is_in(_STOP_STEMS),
            after_determiner=~pl.col("is_first") & pl.col("lower").shift(1).is_in(_BEFORE_NOUNS.split()),
            after_word=~pl.col("is_first") & pl.col("lower").shift(1).str.contains(r"^\p{L}"),
        )
        .with_columns(
            pair=pl.col("is_candidate")
            & pl.col("is_candidate").shift(-1)
            & ~pl.col("is_first").shift(-1, fill_value=True),
            next_stem=pl.col("stem").shift(-1),
            next_word=pl.col("word").shift(-1),
            next_capitalized=pl.col("capitalized").shift(-1),
        )
        .filter("is_candidate")
    )
    single = tokens.select(
        *SCOPE,
        "block",
        phrase="stem",
        label=pl.col("word").str.replace(r"['’]s$", ""),  # noqa: RUF001
        noun=pl.col("after_determiner") | (pl.col("capitalized") & pl.col("after_word")),
    )
    pairs = tokens.filter("pair").select(
        *SCOPE,
        "block",
        phrase=pl.format("{} {}", "stem", "next_stem"),
        label=pl.format("{} {}", "word", "next_word"),
        noun=pl.col("after_determiner") | (pl.col("capitalized") & pl.col("next_capitalized")),
    )
    found = pl.concat([single, pairs]).group_by(*SCOPE, "block", "phrase", "label")
    return found.agg(n=pl.len(), noun=pl.col("noun").sum()).collect()


def phrase_labels(counts: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, phrase, label, capitals, nouns): the commonest spelling, and shares of all occurrences.

    `capitals` is the share with a capital, `nouns` the share used as a noun.
    """
    spelled = counts.group_by(*SCOPE, "phrase", "label").agg(pl.col("n").sum(), pl.col("noun").sum())
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


def phrase_stems(words: Iterable[str]) -> set[str]:
    """Returns the stems of words, as `count_phrases` makes them."""
    frame = pl.DataFrame({"word": sorted(set(words))}, schema={"word": pl.String})
    return set(frame.select(pl.col("word").str.to_lowercase().str.replace(_ENDING, "${1}")).to_series())
