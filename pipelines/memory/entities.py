"""Entities by titles, names and codes: found in each memory alone, then resolved inside each scope.

No model runs here (decision 18): titles, capitalised n-grams, acronyms and code names are what memories share.
"""

import re
from collections.abc import Iterator

import polars as pl

from pipelines.memory.words import CALENDAR, STOPWORDS, fold, is_content
from pipelines.store.ids import content_id
from pipelines.store.tables import conform

_SCOPE = ["collection", "user_id"]
_UPPER = "A-ZÀ-ÖØ-Þ" + "".join(c for c in map(chr, range(0x100, 0x530)) if c.isupper())
_CAPITAL = rf"[{_UPPER}](?:[\w’'&.\-]*\w)?"  # noqa: RUF001
_LINK = r"(?:of|the|de|del|della|di|da|dos|du|des|la|le|van|von|der|den|&|for|y|al|el|ibn|bin)"
_NAME = re.compile(rf"(?<!\w){_CAPITAL}(?:(?:\s+{_LINK}){{0,2}}\s+{_CAPITAL}|\s+\d(?:[\w.\-]*\w)?)*")
_CODE = re.compile(
    r"\b(?:[A-Za-z]{1,10}[-#]\d[\w-]*|[A-Z]{2,}\d+\w*|[a-z]+(?:_[a-z0-9]+)+|[a-z]+[A-Z]\w+"
    r"|[\w-]+\.(?:py|md|js|ts|json|yaml|sql|toml))\b"
)
_EXPLAINED = re.compile(r"\(\s*(?:the\s+)?([A-Z][A-Za-z&]*[A-Z][A-Za-z]*)\s*\)")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n]|[-*•]\s)[\s\"'“‘(\[*#>]*$")  # noqa: RUF001
_ORGANISATION = re.compile(
    r"\b(?:inc|ltd|llc|gmbh|corp|corporation|company|university|institute|college|school|committee|agency|bank|council|"
    r"association|foundation|department|ministry|group|club|society|office|union)\b"
)
_PARTS_OF_NAMES = {
    "new",
    "first",
    "last",
    "great",
    "good",
    "old",
    "day",
    "time",
    "times",
    "works",
    "over",
    "down",
    "people",
}
_NO_NAMES = """
i a mr mrs ms dr prof sir chapter section figure table note yay yo haha lol omg btw aww congrats congratulations
woohoo two three four five six seven eight nine ten cause welcome cheers
"""
_ORDINARY = (STOPWORDS - _PARTS_OF_NAMES) | CALENDAR | frozenset(_NO_NAMES.split())
_CONTRACTION = re.compile(r"[’'](?:s|m|re|ve|ll|d|t)$")  # noqa: RUF001
_LONG_FORM_WORD = re.compile(r"[^\W_]+")
_LINKS = re.compile(rf"{_LINK}|and|in|on|to|with", re.IGNORECASE)
_MAX_NAME_CHARS = 80

SURFACES = {
    "memory_id": pl.String, "collection": pl.String, "user_id": pl.String, "surface": pl.String, "key": pl.String,
    "kind": pl.String, "initial": pl.Boolean, "char_start": pl.Int64, "char_end": pl.Int64,
}  # fmt: skip


def find_mentions(memories: pl.DataFrame, previous: pl.DataFrame | None = None) -> pl.DataFrame:
    """Returns what could be a name in each memory's text: a pure function of that text, sorted by memory and place.

    `kind` is name, acronym, code or `short:<key>` (a short form explained by the name before it, `Long Form (LF)`);
    `initial` says that it is one word that starts a sentence, which any word may do; spans are offsets in `text`.

    Args:
        memories: the memories table.
        previous: the surfaces of an earlier build made by the same code; those of memories that are still here are
            carried over.
    """
    carried = pl.DataFrame(schema=SURFACES)
    todo = memories.select("memory_id", *_SCOPE, "text")
    if previous is not None:
        carried = previous.join(memories, on="memory_id", how="semi")
        todo = todo.join(previous, on="memory_id", how="anti")
    rows = [
        (memory_id, collection, user_id, *found)
        for memory_id, collection, user_id, text in todo.iter_rows()
        for found in (_surfaces(text) or [("", "", "none", False, 0, 0)])
    ]
    fresh = pl.DataFrame(rows, schema=SURFACES, orient="row")
    return pl.concat([carried, fresh]).sort("memory_id", "char_start", "char_end", "kind", "key")


def _surfaces(text: str) -> list[tuple[str, str, str, bool, int, int]]:
    out = []
    for start, end in _name_spans(text):
        surface = text[start:end]
        key = entity_key(surface)
        if not key or len(surface) > _MAX_NAME_CHARS:
            continue
        one_word = not re.search(r"\s", surface)
        acronym = one_word and len(surface) > 1 and surface.isupper()
        initial = one_word and not acronym and bool(_SENTENCE_START.search(text[max(0, start - 6) : start]))
        out.append((surface, key, "acronym" if acronym else "name", initial, start, end))
    for m in _EXPLAINED.finditer(text):
        if (first := _explained_from(text, m.start(), m.group(1))) is not None:
            long = text[first : m.start()].rstrip()
            out.append((long, entity_key(long), "name", False, first, first + len(long)))
            out.append((m.group(1), entity_key(m.group(1)), f"short:{entity_key(long)}", False, m.start(1), m.end(1)))
    for m in _CODE.finditer(text):
        out.append((m.group(), entity_key(m.group()), "code", False, m.start(), m.end()))
    return out


def _name_spans(text: str) -> Iterator[tuple[int, int]]:
    """Spans of capitalised n-grams, without the ordinary words that lead or trail them."""
    for m in _NAME.finditer(text):
        words = [(w.start() + m.start(), w.end() + m.start()) for w in re.finditer(r"\S+", m.group())]
        while words and _ordinary(text[words[0][0] : words[0][1]], len(words) == 1):
            words.pop(0)
        while words and _ordinary(text[words[-1][0] : words[-1][1]], False) and not text[words[-1][0]].isdigit():
            words.pop()
        if words:
            end = words[-1][1]
            if text[end - 2 : end] in ("'s", "’s"):  # noqa: RUF001
                end -= 2
            yield words[0][0], end


def _ordinary(word: str, alone: bool) -> bool:
    plain = _CONTRACTION.sub("", word.lower()).strip("’'.,&-")  # noqa: RUF001
    return plain in _ORDINARY or len(plain) < 2 or word[0].isdigit() or (alone and plain in _PARTS_OF_NAMES)


def _explained_from(text: str, before: int, short: str) -> int | None:
    """Where the long form starts that `Long Form (LF)` explains: the words whose first letters are the short form's."""
    letters = [c.casefold() for c in short if c.isalpha()]
    words = list(_LONG_FORM_WORD.finditer(text, max(0, before - 120), before))[-2 * len(letters) :]
    for first in range(len(words) - 1, -1, -1):
        spelled = [w.group()[0].casefold() for w in words[first:] if not _LINKS.fullmatch(w.group())]
        if spelled == letters and words[first].group()[0].isupper() and len(letters) > 1:
            return words[first].start()
    return None


def entity_key(surface: str) -> str:
    """Returns what makes two spellings one entity: folded, without possessive, leading article or final point."""
    key = fold(surface).replace("’", "'").strip("'\".,;:- ")  # noqa: RUF001
    key = key.removesuffix("'s")
    return key.removeprefix("the ").strip()


def resolve_entities(surfaces: pl.DataFrame, memories: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns (entities, mentions), each scope by itself, sorted by id.

    A title names an entity, and each memory of a document so titled mentions it, with no span where its text does not.
    One capitalised word at the start of a sentence counts only where the scope has it elsewhere: as a name inside a
    sentence, as a title, or as a speaker. A short form explained once (`Long Form (LF)`) stands for its long form.
    """
    titles = _titles(memories)
    names = surfaces.filter(pl.col("kind") != "none")
    shorts = (
        names.filter(pl.col("kind").str.starts_with("short:"))
        .select(*_SCOPE, "key", canonical=pl.col("kind").str.strip_prefix("short:"))
        .unique()
        .filter(pl.len().over(*_SCOPE, "key") == 1)  # explained in two ways: it stands for itself
        .filter(pl.col("key") != pl.col("canonical"))
    )
    speakers = _with_key(memories.select(*_SCOPE, surface="speaker").drop_nulls().unique())
    inside = names.filter(~pl.col("initial")).select(*_SCOPE, "key").unique()
    known = pl.concat([inside, titles.select(*_SCOPE, "key"), speakers.select(*_SCOPE, "key")]).unique()
    sure = pl.concat(
        [names.filter(~pl.col("initial")), names.filter("initial").join(known, on=[*_SCOPE, "key"], how="semi")]
    ).select("memory_id", *_SCOPE, "surface", "key", "kind", "char_start", "char_end")
    found = pl.concat([sure, _title_mentions(memories, titles)])
    found = found.join(shorts, on=[*_SCOPE, "key"], how="left").with_columns(
        own=pl.col("canonical").is_null(), key=pl.coalesce("canonical", "key")
    )
    found = _longest(found.drop("canonical"))
    entities = _entities(found, titles, speakers)
    mentions = found.join(entities.select(*_SCOPE, "key", "entity_id"), on=[*_SCOPE, "key"], how="inner").sort(
        "memory_id", "entity_id", "char_start", nulls_last=True
    )
    mentions = mentions.filter(
        pl.col("char_start").is_not_null() | pl.col("entity_id").is_first_distinct().over("memory_id")
    )
    return conform("entities", entities.drop("key")), conform(
        "mentions", mentions.select("memory_id", "entity_id", *_SCOPE, "char_start", "char_end")
    )


def _with_key(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.Series("key", [entity_key(s) for s in frame["surface"]], pl.String))


def _titles(memories: pl.DataFrame) -> pl.DataFrame:
    """Titles that name something: of documents read in passages, capitalised or numbered, not ordinary words."""
    rows = _with_key(
        memories.filter((pl.col("unit") != "turn") & pl.col("speaker").is_null())
        .select(*_SCOPE, surface=pl.col("title").str.strip_chars())
        .filter(pl.col("surface").str.len_chars().is_between(2, _MAX_NAME_CHARS))
        .filter(pl.col("surface").str.contains(r"[\p{Lu}\p{N}]"))
        .unique()
    )
    distinctive = [
        any(is_content(w) for w in key.split()) or (key.isalnum() and key not in _ORDINARY) for key in rows["key"]
    ]
    return rows.filter(pl.Series(distinctive, dtype=pl.Boolean)).sort(*_SCOPE, "key", "surface")


def _title_mentions(memories: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """Where texts hold a title of their scope: several words in any case, one word as it is written."""
    parts = [_own_titles(memories, titles)]
    held = memories.select("memory_id", *_SCOPE, "text").join(titles.select(*_SCOPE).unique(), on=_SCOPE, how="semi")
    by_scope = dict(iter(titles.group_by(_SCOPE, maintain_order=True)))
    for scope, rows in held.group_by(_SCOPE, maintain_order=True):
        names = by_scope[scope]
        several = names.filter(pl.col("surface").str.contains(r"\s"))["surface"].unique().sort().to_list()
        single = names.filter(~pl.col("surface").str.contains(r"\s"))["surface"].unique().sort().to_list()
        for patterns, any_case in ((several, True), (single, False)):
            if patterns:
                parts.append(_find(rows, patterns, any_case))
    return pl.concat(parts)


def _own_titles(memories: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    return (
        memories.select("memory_id", *_SCOPE, surface=pl.col("title").str.strip_chars())
        .join(titles, on=[*_SCOPE, "surface"], how="inner")
        .select(
            "memory_id",
            *_SCOPE,
            "surface",
            "key",
            kind=pl.lit("title"),
            char_start=pl.lit(None, pl.Int64),
            char_end=pl.lit(None, pl.Int64),
        )
    )


def _find(rows: pl.DataFrame, patterns: list[str], any_case: bool) -> pl.DataFrame:
    """All places of the patterns as whole words, longest first; offsets are turned from bytes into characters."""
    text = pl.col("text")
    hits = (
        rows.with_columns(
            at=text.str.find_many(patterns, ascii_case_insensitive=any_case, leftmost=True),
            surface=text.str.extract_many(patterns, ascii_case_insensitive=any_case, leftmost=True),
        )
        .filter(pl.col("at").list.len() > 0)
        .explode("at", "surface")
    )
    out = []
    for memory_id, collection, user_id, body, at, surface in hits.iter_rows():
        start = at if body.isascii() else len(body.encode()[:at].decode())
        end = start + len(surface)
        if (start and _wordy(body[start - 1])) or (end < len(body) and _wordy(body[end])):
            continue
        out.append((memory_id, collection, user_id, surface, entity_key(surface), "title", start, end))
    schema = {k: v for k, v in SURFACES.items() if k != "initial"}
    return pl.DataFrame(out, schema=schema, orient="row")


def _wordy(char: str) -> bool:
    return char.isalnum() or char == "_"


def _longest(found: pl.DataFrame) -> pl.DataFrame:
    """Of mentions that begin or end at one place, the longest; of one span, one."""
    spans = found.filter(pl.col("char_start").is_not_null())
    rank = pl.when(pl.col("kind") == "title").then(0).otherwise(1)
    spans = (
        spans.with_columns(rank=rank, length=pl.col("char_end") - pl.col("char_start"))
        .sort("memory_id", "char_start", "length", "rank", "key", descending=[False, False, True, False, False])
        .unique(["memory_id", "char_start"], keep="first", maintain_order=True)
    )
    reach = pl.col("char_end").cum_max().shift(1).over("memory_id").fill_null(-1)
    spans = spans.filter((pl.col("char_end") > reach) | (pl.col("kind") == "title")).drop("rank", "length")
    return pl.concat([spans, found.filter(pl.col("char_start").is_null())])


def _entities(found: pl.DataFrame, titles: pl.DataFrame, speakers: pl.DataFrame) -> pl.DataFrame:
    """One row for each key of a scope: the commonest spelling is its name, the others are aliases."""
    spellings = found.group_by(*_SCOPE, "key", "surface").agg(
        pl.col("own").any(), n=pl.len(), title=(pl.col("kind") == "title").any()
    )
    rows = (
        spellings.sort(
            *_SCOPE, "key", "own", "title", "n", "surface", descending=[False, False, False, True, True, True, False]
        )
        .group_by(*_SCOPE, "key", maintain_order=True)
        .agg(name=pl.col("surface").first(), spellings=pl.col("surface"))
        .with_columns(aliases=pl.col("spellings").list.set_difference(pl.concat_list("name")).list.sort())
    )
    kinds = found.group_by(*_SCOPE, "key").agg(
        code=(pl.col("kind") == "code").all(), acronym=(pl.col("kind") == "acronym").all()
    )
    rows = (
        rows.join(kinds, on=[*_SCOPE, "key"])
        .join(speakers.select(*_SCOPE, "key", spoken=pl.lit(True)).unique(), on=[*_SCOPE, "key"], how="left")
        .join(titles.select(*_SCOPE, "key", titled=pl.lit(True)).unique(), on=[*_SCOPE, "key"], how="left")
    )
    kind = (
        pl.when(pl.col("spoken")).then(pl.lit("person"))
        .when(pl.col("key").str.contains(_ORGANISATION.pattern)).then(pl.lit("organisation"))
        .when(pl.col("titled")).then(pl.lit("title"))
        .when(pl.col("code")).then(pl.lit("code"))
        .when(pl.col("acronym")).then(pl.lit("acronym"))
        .otherwise(pl.lit("name"))
    )  # fmt: skip
    ids = [content_id("entity", *r) for r in rows.select(*_SCOPE, "key").iter_rows()]
    return rows.select(pl.Series("entity_id", ids, pl.String), *_SCOPE, "key", "name", "aliases", type=kind).sort(
        "entity_id"
    )


def entity_tables(
    memories: pl.DataFrame, documents: pl.DataFrame, previous: pl.DataFrame | None = None
) -> dict[str, pl.DataFrame]:
    """Returns entities, mentions and surfaces (what is carried over to the next build)."""
    surfaces = find_mentions(memories, previous)
    entities, mentions = resolve_entities(surfaces, memories)
    return {"entities": entities, "mentions": mentions, "surfaces": surfaces}
