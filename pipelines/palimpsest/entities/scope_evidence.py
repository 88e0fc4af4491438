"""Collects, from the tables of a collection, what resolution in each of its scopes depends on."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from palimpsest.core.ids import SCOPE, ScopeKey, by_scope
from palimpsest.entities.find_names import MAX_NAME_CHARS, ORDINARY, entity_key
from palimpsest.entities.name_model import Merge, NameEvidence, Resolution, ScopeEvidence
from palimpsest.entities.resolve_names import resolve
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import SCHEMAS, Schema
from palimpsest.text.words import is_content_word, word_set

_KEY = [*SCOPE, "key"]
_MAX_MEMORY_CHARS = 2**32  # a place in a document is the memory's ordinal times this, plus the offset


def resolve_scopes(
    found: pl.DataFrame,
    stated: pl.DataFrame,
    titles: pl.DataFrame,
    people: pl.DataFrame,
    memories: pl.DataFrame,
    decisions: Decisions,
) -> dict[ScopeKey, Resolution]:
    """Resolves each scope that has names, by itself.

    Args:
        found: mentions that count as names, with `document_id`.
        stated: mention candidates with `same_as`: names that a text says are one, and offices with their holders.
        titles: (scope, surface, key) of titles that name something.
        people: (scope, document_id, key) of speakers and people in metadata.
        memories: the memories table.
        decisions: people's, on which names are one.
    """
    stated = stated.join(memories.select("memory_id", "document_id"), on="memory_id", how="left")
    own = memories.select("document_id", *SCOPE, surface=pl.col("title").str.strip_chars()).unique()
    own = own.join(titles, on=[*SCOPE, "surface"], how="inner")
    parts = {"stated": stated, "people": people, "places": _places(found, people, memories), "titled": own}
    of_scope = {name: by_scope(frame) for name, frame in parts.items()}
    return {
        at: resolve(_build_evidence(at, names, decisions, **{n: frames.get(at) for n, frames in of_scope.items()}))
        for at, names in by_scope(_statistics(found, titles)).items()
    }


def _statistics(found: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """Returns how often each key is mentioned, by cue; the columns are the fields of `NameEvidence`."""
    cue, kind = pl.col("cue"), pl.col("kind")
    counts = found.group_by(_KEY).agg(
        n=(kind != "title").sum(),
        person=(cue == "person").sum(),
        definite=(cue == "the").sum(),
        one=(cue == "one").sum(),
        many=(cue == "many").sum(),
        inside=cue.is_in(["in", "place"]).sum(),
        acts=cue.is_in(["acts", "organisation"]).sum(),
        code=(kind == "code").any() & (kind != "name").all(),
        acronym=(kind == "acronym").any() & (kind != "name").all(),
        memory_id=pl.col("memory_id").min(),
    )
    titled = titles.select(*_KEY, titled=pl.lit(True)).unique()
    return counts.join(titled, on=_KEY, how="left").with_columns(pl.col("titled").fill_null(False))


def _places(found: pl.DataFrame, people: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns, of keys that are long or may be short for long ones, their memories and first place in each document."""
    order = memories.select("memory_id", pl.col("ordinal").fill_null(0) * _MAX_MEMORY_CHARS)
    outside_text = people.select(*_KEY, "document_id", memory_id=pl.lit(None, pl.String), at=pl.lit(-1, pl.Int64))
    several = pl.col("key").str.contains(" ", literal=True)
    long = pl.concat([found.filter(several)["key"], people.filter(several)["key"]]).unique().str.split(" ")
    ends = pl.concat([long.list.first(), long.list.last(), people["key"]]).unique()
    needed = several | pl.col("key").is_in(ends.implode()) | (pl.col("kind") == "acronym") | (pl.col("cue") == "person")
    keys = found.filter(needed).select(_KEY).unique()
    named = found.join(keys, on=_KEY, how="semi").join(order, on="memory_id", how="left")
    at = (pl.col("ordinal") + pl.col("char_start")).fill_null(-1).alias("at")
    first = (
        pl.concat([named.select(*_KEY, "document_id", "memory_id", at), outside_text])
        .group_by(*_KEY, "document_id")
        .agg(pl.col("at").min(), pl.col("memory_id").drop_nulls().unique())
    )
    return first.group_by(_KEY).agg("document_id", "at", pl.col("memory_id").explode())


def _build_evidence(
    scope: ScopeKey,
    names: pl.DataFrame,
    decisions: Decisions,
    *,
    stated: pl.DataFrame | None,
    people: pl.DataFrame | None,
    places: pl.DataFrame | None,
    titled: pl.DataFrame | None,
) -> ScopeEvidence:
    documents, key_memories = {}, {}
    for key, document_ids, first_places, memory_ids in _rows(places, "key", "document_id", "at", "memory_id"):
        documents[key] = dict(zip(document_ids, first_places, strict=True))
        key_memories[key] = frozenset(memory_ids)
    known = {row["key"]: NameEvidence(**row) for row in names.drop(SCOPE).iter_rows(named=True)}
    persons = frozenset(people["key"]) if people is not None else frozenset()
    merges = [
        (document, kind, Merge(*fields))
        for document, kind, *fields in _rows(stated, "document_id", "kind", "key", "same_as", "why", "memory_id")
    ]
    same, apart = decisions.names_in(scope, {*known, *persons})
    return ScopeEvidence(
        names=known,
        stated=tuple(sorted({m for _, kind, m in merges if kind != "role"})),
        offices=tuple(sorted({(d, m) for d, kind, m in merges if kind == "role"})),
        people=persons,
        documents=documents,
        memories=key_memories,
        titles=dict(_rows(titled, "document_id", "key")),
        same=same,
        apart=apart,
    )


def _rows(frame: pl.DataFrame | None, *columns: str) -> Iterator[tuple[Any, ...]]:
    return iter(()) if frame is None else frame.select(columns).iter_rows()


# Titles as names: of documents in passages, and where other texts of the scope mention them.

_OF_MENTION = ("memory_id", *SCOPE, "surface", "key", "kind", "cue", "char_start", "char_end")
MENTION_SCHEMA: Schema = {name: SCHEMAS["surfaces"][name] for name in _OF_MENTION}


def add_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `key` to a frame with `surface`."""
    return frame.with_columns(pl.Series("key", [entity_key(s) for s in frame["surface"]], pl.String))


def find_titles(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, surface, key) of titles that name something: capitalised or numbered, not ordinary words."""
    rows = add_keys(
        memories.filter((pl.col("unit") != "turn") & pl.col("speaker").is_null())
        .select(*SCOPE, surface=pl.col("title").str.strip_chars())
        .filter(pl.col("surface").str.len_chars().is_between(2, MAX_NAME_CHARS))
        .filter(pl.col("surface").str.contains(r"[\p{Lu}\p{N}]"))
        .unique()
    )
    distinctive = [
        any(is_content_word(w) for w in key.split()) or (key.isalnum() and key not in ORDINARY) for key in rows["key"]
    ]
    return rows.filter(pl.Series(distinctive, dtype=pl.Boolean)).sort(*SCOPE, "key", "surface")


def find_title_mentions(memories: pl.DataFrame, titles: pl.DataFrame, explained: pl.DataFrame) -> pl.DataFrame:
    """Returns where texts contain a title or an explained long form of their scope; columns as `MENTION_SCHEMA`.

    Several words are found in any case, one word as it is written. Each memory of a titled document mentions the title,
    with no span.

    Args:
        memories: the memories table.
        titles: what `find_titles` returned.
        explained: (scope, surface, key) of long forms in small letters, which `find_names` does not find.
    """
    phrases = pl.concat([titles.select(*SCOPE, "surface"), explained.select(*SCOPE, "surface")])
    texts = memories.select("memory_id", *SCOPE, "text")
    has_space = pl.col("surface").str.contains(r"\s")
    return pl.concat(
        [
            _mentions_by_title(memories, titles),
            *_find_in_scopes(texts, phrases.filter(has_space), any_case=True),
            *_find_in_scopes(texts, phrases.filter(~has_space), any_case=False),
        ]
    )


def _mentions_by_title(memories: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    no_place = pl.lit(None, pl.Int64)
    return (
        memories.select("memory_id", *SCOPE, surface=pl.col("title").str.strip_chars())
        .join(titles, on=[*SCOPE, "surface"], how="inner")
        .select(
            "memory_id",
            *SCOPE,
            "surface",
            "key",
            kind=pl.lit("title"),
            cue=pl.lit(""),
            char_start=no_place,
            char_end=no_place,
        )
    )


def _find_in_scopes(texts: pl.DataFrame, phrases: pl.DataFrame, any_case: bool) -> Iterator[pl.DataFrame]:
    """Yields where the texts of each scope have its phrases: frames of (scope, surface)."""
    by_scope = dict(iter(phrases.group_by(SCOPE, maintain_order=True)))
    for scope, rows in texts.group_by(SCOPE, maintain_order=True):
        if scope in by_scope:
            yield _find(rows, by_scope[scope]["surface"].unique().sort().to_list(), any_case)


def _find(rows: pl.DataFrame, patterns: list[str], any_case: bool) -> pl.DataFrame:
    """Returns all places of the patterns as whole words, longest first, with offsets in characters."""
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
    for memory_id, *scope, body, at, surface in hits.select("memory_id", *SCOPE, "text", "at", "surface").iter_rows():
        start = at if body.isascii() else len(body.encode()[:at].decode())
        end = start + len(surface)
        if (start and _is_word_char(body[start - 1])) or (end < len(body) and _is_word_char(body[end])):
            continue
        out.append((memory_id, *scope, surface, entity_key(surface), "title", "", start, end))
    return pl.DataFrame(out, schema=MENTION_SCHEMA, orient="row")


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


_CODE = r"(?s:```.*?(?:```|\z))|`[^`\n]*`|\S*[./@_:#=\\-]\w\S*"  # addresses, paths and code, which have small letters
_LEAST_SMALL = 2


def written_small(names: pl.DataFrame, memories: pl.DataFrame, known: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Returns the (scope, key) of capitalised words that the texts of their scope have as often in small letters.

    Directors and a Business Case are no names where others are directors and a business case (truecasing). Addresses
    and code do not count, nor does a single time.

    Args:
        names: mention candidates.
        memories: the memories table.
        known: frames of (scope, key) that are names however they are written, such as those of people.
    """
    cased = pl.col("surface").str.to_lowercase()
    is_capitalised = (pl.col("kind") == "name") & (pl.col("surface") != cased) & (pl.col("cue") != "person")
    words = names.filter(is_capitalised).join(pl.concat([f.select(_KEY) for f in known]), on=_KEY, how="anti")
    counts = words.group_by(*_KEY, small=cased).agg(n=pl.len())
    texts = memories.select("memory_id", *SCOPE, pl.col("text").str.replace_all(_CODE, " "))
    found = _find_in_scopes(texts, counts.select(*SCOPE, surface="small"), any_case=False)
    small = pl.concat([pl.DataFrame(schema=MENTION_SCHEMA), *found])
    small = small.group_by(*SCOPE, small="surface").agg(in_small=pl.len())
    is_word = pl.col("in_small") >= pl.max_horizontal("n", _LEAST_SMALL)
    return counts.join(small, on=[*SCOPE, "small"]).filter(is_word).select(_KEY).unique()


# People that a document names outside its text: its speakers, and authors, attendees and the like in its metadata.

_PEOPLE: Schema = dict.fromkeys((*SCOPE, "document_id", "surface", "key"), pl.String)
_FIELDS = word_set(
    """
    author authors attendee attendees participant participants present from to cc sender recipient recipients owner
    owners reviewer reviewers approver member members contact contacts speaker speakers people presenter presenters
    host hosts guest guests creator editor editors signed_by written_by last_modified_by
    """
)
_ADDRESS = re.compile(r"(?<!\s)\s*+(?:<[^<>]*+>|\([^()]*+\))\s*+$")
_NEXT_NAME = re.compile(
    r"(?:[;,]|\s(?:and|&)\s)(?![^<]{0,320}>)"
)  # a mark inside an address, which has 320 characters at most, divides none
_FULL_NAME = re.compile(r"[^\W\d_][\w'’.\-]*(?: [^\W\d_][\w'’.\-]*){0,4}")  # noqa: RUF001
_MAX_NAMES = 200  # of one document


def find_people(memories: pl.DataFrame, documents: pl.DataFrame | None) -> pl.DataFrame:
    """Returns (scope, document_id, surface, key), sorted: speakers, and names of people in documents' metadata.

    Args:
        memories: the memories table.
        documents: the documents table, or none.
    """
    rows = memories.select(*SCOPE, "document_id", surface="speaker").drop_nulls("surface").unique().rows()
    if documents is not None and "metadata" in documents.columns:
        described = documents.filter(pl.col("metadata").fill_null("").str.len_chars() > len("{}"))
        for *at, metadata in described.select(*SCOPE, "document_id", "metadata").iter_rows():
            rows += [(*at, name) for name in _names_in(metadata)]
    frame = pl.DataFrame([(*r, entity_key(r[-1])) for r in rows], schema=_PEOPLE, orient="row")
    return frame.filter(pl.col("key") != "").unique().sort(pl.all())


def _names_in(metadata: str) -> list[str]:
    try:
        fields = json.loads(metadata)
    except ValueError:
        return []
    if not isinstance(fields, dict):
        return []
    values = (v for k, v in sorted(fields.items()) if k.lower().replace("-", "_") in _FIELDS for v in _strings(v))
    return [n for n, _ in zip(person_names(values), range(_MAX_NAMES), strict=False)]


def person_names(values: Iterable[str]) -> Iterator[str]:
    """Yields the names of people in values such as `Ida Berg <ida@example.org>, Tom Ray and Ann Low (chair)`."""
    for value in values:
        for part in _NEXT_NAME.split(value):
            name = _ADDRESS.sub("", part).strip(" \"'")
            if _FULL_NAME.fullmatch(name) and name[0].isupper() and len(name) <= 60:
                yield name


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (v for v in value if isinstance(v, str))
