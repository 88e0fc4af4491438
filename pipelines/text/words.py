"""Words as every stage of memory counts them: folding, a frozen list of words that mean nothing alone, sentences.

The list is part of the program, not learned from a corpus, so that what two memories share is a function of those two
alone and a build that changed a little equals a build from scratch (decision 15).
"""

import re
import unicodedata

import polars as pl

_FUNCTION = """
a about above across after again against ago ah all almost along already also although always am among an and another
any anybody anymore anyone anything anyway are aren around as at away back be because been before behind being below
beside besides between beyond both but by can cannot could couldn did didn do does doesn doing don done down during
each either else enough even ever every everybody everyone everything everywhere except few for from further had hadn
has hasn have haven having he hence her here hers herself hey hi him himself his how however if in indeed instead into
is isn it its itself just least less let like likely ll lot lots many may maybe me might mine more most mostly much
must mustn my myself neither never next no nobody none nor not nothing now nowhere of off often oh ok okay on once one
ones only onto or other others otherwise our ours ourselves out over own per perhaps please quite rather re really
right s same shall shan she should shouldn since so some somebody somehow someone something sometimes somewhere soon
still such sure t than thank thanks that the their theirs them themselves then there therefore these they thing things
this those though through throughout thus till to together too toward towards under unless until up upon us usually ve
very via was wasn way we well were weren what whatever when whenever where wherever whether which while who whoever
whole whom whose why will with within without won would wouldn yeah yep yes yet you your yours yourself yourselves
"""
_FILLER = """
actually alright basically bit bye cool definitely exactly fine gonna good got great guess guy guys hello hm hmm hmmm
huh kind kinda literally look looks mean mm mmm nice obviously ooh pretty probably said say says see seems simply
sorry sort stuff suppose tell think thought totally true uh uhm um wanna want wants whoa wow get gets getting give
given go goes going gone know knows known make makes made making need needs put take takes taken taking try trying use
used using went work works come comes coming came keep kept day days time times today tomorrow yesterday year years
week weeks month months new old first last lots people person year's
"""
_CALENDAR = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec
"""

CALENDAR = frozenset(_CALENDAR.split())
STOPWORDS = frozenset(_FUNCTION.split()) | frozenset(_FILLER.split())
_NOT_CONTENT = STOPWORDS | CALENDAR

_WORD = r"[\p{L}\p{N}][\p{L}\p{N}_\-./]*[\p{L}\p{N}]|[\p{L}\p{N}]"
_SHORT_WORD = re.compile(r"[^\W_](?:[\w\-./]*[^\W_])?")
_ACCENTS = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
_ACCENT = re.compile(_ACCENTS)
_MARK = re.compile(r"\{\w+\}")
_SENTENCE_END = re.compile(
    r"(?<=[.!?\u2026])([\"'\u201d\u2019)\]]*)\s+(?=[\"'\u201c\u2018(\[]*[^\W_])"
    r"|\s*\n\s*(?:[-*\u2022]|\d+[.)])\s+|[ \t]*\n[ \t]*\n\s*|[ \t]*\n[ \t]*(?![a-z\s])"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\.g|i\.e|no|inc|ltd|co|corp|approx|fig|eq|dept|est)|\b[A-Z])\.$", re.I
)


def fold(text: str) -> str:
    """Returns the text in lower case, without accents, with single spaces: equal when two people call it the same."""
    if not text.isascii():
        text = _ACCENT.sub("", unicodedata.normalize("NFKD", text.lower()))
    return " ".join(text.lower().split())


def fold_expr(column: str) -> pl.Expr:
    """Returns `fold` as a polars expression over a string column."""
    return (
        pl.col(column)
        .str.to_lowercase()
        .str.normalize("NFKD")
        .str.replace_all(_ACCENTS, "")
        .str.to_lowercase()
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )


def is_content(word: str) -> bool:
    """Says whether a folded word says something by itself: no function word, filler or date; 3 letters or a digit."""
    return word not in _NOT_CONTENT and (len(word) > 2 or any(c.isdigit() for c in word))


def content_words(text: str) -> frozenset[str]:
    """Returns the folded content words of a text; transcribers' marks, `{laugh}`, are no words."""
    return frozenset(w for w in _SHORT_WORD.findall(_MARK.sub(" ", fold(text))) if is_content(w))


def stems_of(words: frozenset[str]) -> frozenset[str]:
    """Returns the words without the commonest English endings: crude, the same for every form of most words."""
    out = set()
    for w in words:
        for end in ("ings", "ing", "ies", "ed", "es", "s", "e"):
            if w.endswith(end) and len(w) - len(end) >= 3:
                w = w[: -len(end)]
                break
        out.add(w)
    return frozenset(out)


def word_rows(frame: pl.DataFrame, key: str, column: str = "text") -> pl.DataFrame:
    """Returns one row (key, word) for each content word occurrence of `column`, folded, in order."""
    return (
        frame.lazy()
        .select(pl.col(key), fold_expr(column).str.replace_all(_MARK.pattern, " ").str.extract_all(_WORD).alias("word"))
        .explode("word")
        .filter(pl.col("word").is_not_null())
        .filter((pl.col("word").str.len_chars() > 2) | pl.col("word").str.contains(r"\p{N}"))
        .filter(~pl.col("word").is_in(sorted(_NOT_CONTENT)))
        .collect()
    )


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Returns (start, end) of each sentence, trimmed, in order.

    A blank line, a list item and a line break before anything but a small letter end one too.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for m in _SENTENCE_END.finditer(text):
        head = text[start : m.start()].rstrip("\"'\u201d\u2019)] ")
        if "\n" not in m.group() and _ABBREVIATION.search(head[-12:]):
            continue
        spans.append((start, m.start() + len(m.group(1) or "")))
        start = m.end()
    spans.append((start, len(text)))
    out = []
    for s, e in spans:
        while s < e and text[s].isspace():
            s += 1
        while e > s and text[e - 1].isspace():
            e -= 1
        if s < e:
            out.append((s, e))
    return out
