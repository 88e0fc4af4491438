"""Texts that recur across the documents of a collection: navigation, signatures, attendance, disclaimers.

They are found by how many documents have them, not by what they say. They are kept, and shown with `--include-hidden`;
`palimpsest collection boilerplate` lists them. A text recurs in one of four ways:

- as it is, letter case, marks and spaces aside; with a number in it, where half of the documents have it;
- with other links, in eight words or more; or with other links and counters, in three words or more, where it is the
  first or the last text of half of the documents;
- as a block of twenty words or more in which links, dates, counters or names differ: near duplicates are found by
  MinHash (Broder, 1997), and a pair of them counts only where each other word is the same;
- as a list of names, most of which recur in other lists.

What differs in any other word, in a score, an amount or a version says something of its own. So does a value: the one
short text of a section that has others elsewhere (`Status`), what is said under many headings (`Yes.`), or all of a
document.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.text.markup import WEB_ADDRESS

BOILERPLATE = "boilerplate"
"""Tag of these memories."""
_MIN_DOCUMENTS = 4
_MIN_SHARE = 0.1
_TEMPLATE_WORDS = 8
_EDGE_WORDS = 3
_HALF = 0.5
_BLOCK_WORDS = 20
_VALUE_WORDS = 6
_VALUE_SHARE = 0.9
"""Of the documents with a section or a label: what more of them have distinguishes none."""
_COPY_SIMILARITY = 0.7
"""Of the texts of two documents: such are versions of one and count once."""
_MIN_NAMES = 4
_NAMES_SHARE = 0.8
_SIMILARITY = 0.8
_PERMUTATIONS = 64

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?:mon|tues?|wednes|thurs?|fri|satur|sun)(?:day)?"
_LINK = rf"\]\([^)\s]*\)|{WEB_ADDRESS}|\S+@\S+\.\w+"
_DATE = (
    r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\b\.?)?"
    rf"|\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?{_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?,?\s+\d{{4}}\b|\b{_DAY}\b"
)
"""In lower case, as `_LINK`: the target of a link, or an address."""
_COUNTER = r"(?:^|\s)[#(\[]*\d+[)\].,:;]*(?:\s|$)"
"""A number alone: not part of a score, an amount, a version or a name."""
_MARKS = r"[^\p{L}\d\s/%$€£@.,:\x{2013}-]+|[.,:\x{2013}-]+(?:\s|$)|(?:^|\s)[.,:\x{2013}-]+"
_LETTERS = r"\p{L}{2,}"
_NUMBER = r"(?:^|[^\p{L}\d])\d"
_LABEL = re.compile(r"^\W*(\w[^:\n]{0,40}):\**\s")
_ITEM = re.compile(r"[,;\n•·]|\s\*\s|\s-\s|\s(?:and|und|et|y)\s")
_NAME = re.compile(r"^@?[^\W\d_a-zß-ÿ][^\n]{1,40}$|^@\S+$")
_WORD = re.compile(r"\w+(?:[-.,:/]\w+)*[%€$£]?")


def find_boilerplate(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, text, documents) of memories that recur, with how many documents have their text.

    Turns of conversations are not looked at: what people say again, they mean.

    Args:
        memories: the memories table.
        documents: the documents table.
    """
    current = documents.filter("is_current").select("document_id", "uri")
    rows = memories.filter(pl.col("unit") != "turn").join(current, on="document_id", how="inner")
    found = [_of_scope(of_scope) for _, of_scope in rows.group_by(SCOPE, maintain_order=True)]
    empty = memories.clear().select("memory_id", "text", documents=pl.lit(0, pl.Int64))
    return pl.concat([empty, *found]).sort("memory_id")


def set_apart(memories: pl.DataFrame, recurring: pl.DataFrame) -> pl.DataFrame:
    """Returns memories of which those that recur are hidden and have the tag `boilerplate`."""
    is_one = pl.col("memory_id").is_in(recurring["memory_id"].implode())
    tags = pl.col("tags").fill_null([]).list.concat(pl.lit([BOILERPLATE])).list.unique().list.sort()
    return memories.with_columns(
        user_visible=pl.when(is_one).then(False).otherwise("user_visible"),
        tags=pl.when(is_one).then(tags).otherwise("tags"),
    )


def _of_scope(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories of one scope that recur."""
    keyed = _with_keys(rows).with_columns(pl.col("uri").replace(_copies(rows)))
    total = keyed["uri"].n_unique()
    keyed = keyed.filter(pl.len().over("document_id") > 1)
    least = max(_MIN_DOCUMENTS, total * _MIN_SHARE)
    same, linked, alike = (pl.col("uri").n_unique().over(c) for c in ("same", "linkless", "key"))
    words = pl.col("key").str.count_matches(_LETTERS)
    is_at_edge = (pl.col("is_edge").sum().over("key") >= alike * _HALF) & (alike >= total * _HALF)
    ways = [
        # An item of an agenda, with its number, recurs while it is open.
        (~pl.col("same").str.contains(_NUMBER) | (same >= total * _HALF), same),
        (words >= _TEMPLATE_WORDS, linked),
        ((words >= _EDGE_WORDS) & is_at_edge & pl.col("label").is_null(), alike),
    ]
    may_recur = pl.col("same").str.contains(_LETTERS) & ~_is_value(least)
    counted = keyed.with_columns(
        documents=pl.max_horizontal(pl.when(may_recur & way).then(n).otherwise(0) for way, n in ways).cast(pl.Int64)
    )
    more = {**_near_blocks(counted, least), **_lists_of_names(counted, least)}
    near = pl.col("memory_id").replace_strict(more, default=0, return_dtype=pl.Int64)
    recurring = counted.with_columns(documents=pl.max_horizontal("documents", near))
    return recurring.filter(pl.col("documents") >= least).select("memory_id", "text", "documents")


def _copies(rows: pl.DataFrame) -> dict[str, str]:
    """Returns the first of the documents that have nearly the same texts, by uri, of those that are not the first."""
    texts = {uri: Counter(set(of)) for uri, of in rows.group_by("uri").agg("text").sort("uri").iter_rows()}
    first: dict[str, str] = {}
    for uri, others in _near(texts, _COPY_SIMILARITY):
        for other in sorted(others):
            shared, both = (texts[uri] & texts[other]).total(), (texts[uri] | texts[other]).total()
            if other < uri and shared >= _COPY_SIMILARITY * both:
                first[uri] = first.get(other, other)
                break
    return first


def _near(bags: dict[str, Counter[str]], similarity: float) -> Iterator[tuple[str, set[str]]]:
    """Yields each key with those whose bags have about this Jaccard similarity or more, itself included, in order."""
    from datasketch import MinHash, MinHashLSH

    index, sketches = MinHashLSH(threshold=similarity, num_perm=_PERMUTATIONS), {}
    for key, bag in bags.items():
        sketches[key] = MinHash(num_perm=_PERMUTATIONS, seed=1)
        sketches[key].update_batch([part.encode() for part in sorted(bag)])
        index.insert(key, sketches[key])
    yield from ((key, {key, *index.query(sketch)}) for key, sketch in sketches.items())


def _with_keys(rows: pl.DataFrame) -> pl.DataFrame:
    """Adds what texts are compared by, their label or section, and whether they begin or end their document.

    `same` is the text but letter case and marks; `linkless` is that without links, `key` without links and counters,
    `block` without links, dates and counters.
    """
    folded = pl.col("text").str.to_lowercase()
    linkless = folded.str.replace_all(_LINK, " ")
    section = pl.col("heading").fill_null("").str.split(" > ").list.last()
    place = pl.col("ordinal")
    return rows.with_columns(
        same=_plain(folded),
        linkless=_plain(linkless),
        key=_plain(_without_counters(linkless)),
        block=_plain(_without_counters(linkless.str.replace_all(_DATE, " "))),
        section=pl.when(section != pl.col("title").fill_null("")).then(section),
        label=pl.col("text").map_elements(_label_of, pl.String),
        is_edge=(place == place.min().over("document_id")) | (place == place.max().over("document_id")),
        is_only=pl.len().over("document_id", "heading") == 1,
    )


def _plain(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(_MARKS, " ").str.replace_all(r"\s+", " ").str.strip_chars()


def _without_counters(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(r"\s", "  ").str.replace_all(_COUNTER, " ")


def _label_of(text: str) -> str | None:
    found = _LABEL.match(text)
    return found[1].strip(" *_").lower() if found else None


def _is_value(least: float) -> pl.Expr:
    """Returns whether a text is a value of its section or label, which has others, or is said under many headings."""
    is_short = pl.col("same").str.count_matches(r"\S+") <= _VALUE_WORDS
    has_others = pl.lit(False)
    for of, is_one in (("label", pl.col("label").is_not_null()), ("section", pl.col("is_only") & is_short)):
        group = pl.when(is_one & pl.col(of).is_not_null()).then(pl.col(of))
        documents = pl.col("uri").n_unique().over(group)
        share = pl.col("uri").n_unique().over(group, "same") / documents
        has_others |= group.is_not_null() & (documents >= least) & (share < _VALUE_SHARE)
    below = pl.when(pl.col("heading").str.contains(" > ", literal=True)).then("section")
    headings = below.drop_nulls().n_unique().over("same")
    return has_others | (is_short & (headings > pl.col("uri").n_unique().over("same") * _HALF))


# Blocks that differ in names alone.


def _near_blocks(rows: pl.DataFrame, least: float) -> dict[str, int]:
    """Returns how many documents have a block or a near duplicate of it, by memory, of those that enough have."""
    blocks = rows.filter(pl.col("block").str.count_matches(_LETTERS) >= _BLOCK_WORDS)
    by_block = blocks.group_by("block").agg("uri", "memory_id").sort("block")
    of_key = {key: (set(uris), memory_ids) for key, uris, memory_ids in by_block.iter_rows()}
    common = _lower_words(rows["text"])
    bags = {key: Counter(_WORD.findall(key)) for key in of_key}
    found: dict[str, int] = {}
    for key, others in _near(bags, _SIMILARITY):
        near = [k for k in others if _differ_in_names(bags[key], bags[k], common)]
        documents = len(set().union(*(of_key[k][0] for k in near)))
        if documents >= least:
            found |= dict.fromkeys(of_key[key][1], documents)
    return found


def _lower_words(texts: Iterable[str]) -> set[str]:
    """Returns the words that some text has in lower case; others, and those with digits, may be names."""
    return {word for text in texts for word in _WORD.findall(text) if word.islower()}


def _differ_in_names(a: Counter[str], b: Counter[str], common: set[str]) -> bool:
    """Returns whether two blocks are the same but for a few words, all of them names."""
    differing = (a - b) + (b - a)
    is_near = differing.total() <= (1 - _SIMILARITY) * min(a.total(), b.total())
    return is_near and all(word.isalpha() and word not in common for word in differing)


# Lists of names: who was present.


def _lists_of_names(rows: pl.DataFrame, least: float) -> dict[str, int]:
    """Returns, for each memory that is a list of names of which most recur, how many documents have its rarest one."""
    lists = {m: names for m, text in rows.select("memory_id", "text").iter_rows() if (names := list(_names(text)))}
    uri_of = dict(rows.select("memory_id", "uri").iter_rows())
    documents = defaultdict[str, set[str]](set)
    for memory_id, names in lists.items():
        for name in names:
            documents[name].add(uri_of[memory_id])
    found = {}
    for memory_id, names in lists.items():
        counts = sorted((n for name in names if (n := len(documents[name])) >= least), reverse=True)
        if len(counts) >= max(_MIN_NAMES, _NAMES_SHARE * len(names)):
            found[memory_id] = counts[-1]
    return found


def _names(text: str) -> Iterator[str]:
    """Yields the names of a list, in lower case; none of a text that is anything else."""
    label = _LABEL.match(text)
    items = [item.strip(" \t*_-[]().") for item in _ITEM.split(text[label.end() :] if label else text)]
    items = [item for item in items if item]
    if len(items) >= _MIN_NAMES and all(_NAME.match(i) and len(i.split()) <= 5 for i in items):
        yield from (item.lower() for item in items)
