"""A scope of a build together with pending memories: one view, so that everything after it ranks both alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from palimpsest.query.request.types import Filters
from palimpsest.query.scope.scope_arrays import Arrays, ByteCache, Postings, known_rows
from palimpsest.query.scope.scope_graph import RELATION_LABELS, MemorySentences, PassageGraph
from palimpsest.query.scope.view import BOOLEANS, CLOCK, NUMBERS, TEXTS, TIMES, CachedScopeView


@dataclass(frozen=True)
class PendingChanges:
    """What the pending memories of a scope change of its built ones.

    Attributes:
        links: relations to them: newer id, older id, one of `RELATION_LABELS`, confidence.
        reasons: (memory id, JSON line), as `memories.version_reasons` writes them.
        replaced: ids of built memories whose words were edited: they are no candidates.
    """

    links: Sequence[tuple[str, str, str, float]] = ()
    reasons: Sequence[tuple[str, str]] = ()
    replaced: Sequence[str] = ()


NO_CHANGES = PendingChanges()

# The parts of a scope that have local rows: which of their columns those are.

_PAIRS = {"order": ("row", "next_row"), "written": ("row", "next_row"), "periods": ("row",)}
_LINKS = ("newer", "older", "replaced_by", "replaced")
_BUILT = {
    "assistant": ("row",),
    "named": ("row",),
    "formed": ("row", "evidence"),
    "passages": ("mention_row", "title_row"),
}
"""Parts that pending memories are not in: what a build finds in many texts, or forms."""
_Values = TypeVar("_Values", np.ndarray, list[str])


class JoinedScope(CachedScopeView):
    """See ScopeView.

    BM25 of pending memories is by how rare words are in both; that of built ones is as it was built.

    Args:
        built: the scope in a build.
        pending: its pending memories, in a store of their own. None of them is in the build.
        changes: what they change.
        cache: of this view alone.
    """

    def __init__(self, built: CachedScopeView, pending: CachedScopeView, changes: PendingChanges, cache: ByteCache):
        super().__init__(cache, "joined")
        self._built, self._pending, self._changes = built, pending, changes
        places = np.searchsorted(built.ids, pending.ids)
        self._ids = np.insert(built.ids, places, pending.ids)
        self._new = places + np.arange(len(places))
        is_old = np.ones(len(self._ids), bool)
        is_old[self._new] = False
        self._old = np.flatnonzero(is_old)
        self._is_old, self._own = is_old, np.empty(len(self._ids), np.int64)
        self._own[self._old], self._own[self._new] = np.arange(len(self._old)), np.arange(len(self._new))

    @property
    def ids(self) -> np.ndarray:
        """See ScopeView."""
        return self._ids

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        return self._merged(self._built.cosines(vector), self._pending.cosines(vector))

    def estimated_cosines(self, vector: np.ndarray) -> np.ndarray | None:
        """See ScopeView."""
        found = self._built.estimated_cosines(vector)
        return None if found is None else self._merged(found, self._pending.cosines(vector))

    def cosines_of(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        found, is_old = np.zeros(len(rows)), self._is_old[rows]
        found[is_old] = self._built.cosines_of(vector, self._own[rows[is_old]])
        found[~is_old] = self._pending.cosines_of(vector, self._own[rows[~is_old]])
        return found

    def window_cosines(self, vector: np.ndarray, rows: np.ndarray) -> list[np.ndarray] | None:
        """See ScopeView."""
        is_old = self._is_old[rows]
        old = self._built.window_cosines(vector, self._own[rows[is_old]])
        new = self._pending.window_cosines(vector, self._own[rows[~is_old]])
        if old is None or new is None:
            return None
        of_old, of_new = iter(old), iter(new)
        return [next(of_old if is_built else of_new) for is_built in is_old.tolist()]

    def windows(self) -> np.ndarray | None:
        """See ScopeView."""
        old, new = self._built.windows(), self._pending.windows()
        if old is None and new is None:
            return None
        sides = ((old, self._old), (new, self._new))
        return self._merged(*(np.ones(len(at), np.int64) if n is None else n for n, at in sides))

    def passages(self) -> PassageGraph | None:
        """See ScopeView."""
        graph = self._cached("passages", lambda: PassageGraph.from_arrays(self._arrays("passages"), self._size))
        return graph if len(graph.keys) else None

    @property
    def _size(self) -> int:
        return len(self._ids)

    def _merged(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Returns values of the built and of the pending memories by local row."""
        found = np.empty(len(self._ids), np.result_type(old, new))
        found[self._old], found[self._new] = old, new
        return found

    def _stored_allowed(self, filters: Filters) -> np.ndarray:
        allowed = self._merged(self._built.allowed(filters), self._pending.allowed(filters))
        allowed[list(known_rows(self._ids, self._changes.replaced).values())] = False
        return allowed

    def _load_postings(self, missing: list[str]) -> dict[str, Postings]:
        names = sorted(set(missing))
        sides = zip(names, self._built.postings(names), self._pending.postings(names), strict=True)
        loaded = {name: self._joined_postings(old, new) for name, old, new in sides}
        for name, postings in loaded.items():
            self._cache.put((self._place, "term", name), postings)
        return loaded

    def _joined_postings(self, old: Postings, new: Postings) -> Postings:
        if len(new.rows) == 0:
            return Postings(self._old[old.rows], old.scores)
        both = _rarity(len(old.rows) + len(new.rows), self._size)
        of_new = new.scores * (both / _rarity(len(new.rows), len(self._new)))
        rows = np.concatenate([self._old[old.rows], self._new[new.rows]])
        order = np.argsort(rows, kind="stable")
        return Postings(rows[order], np.concatenate([old.scores, of_new.astype(np.float32)])[order])

    def _load_sentences(self, rows: Sequence[int]) -> dict[int, MemorySentences]:
        found: dict[int, MemorySentences] = {}
        for view, mine in self._by_side(rows):
            read = view._read_sentences(self._own[mine])
            found |= {row: read[int(self._own[row])] for row in mine.tolist()}
        # Numbers of entities are those of the build: pending memories have none.
        none = np.zeros(0, np.int64)
        return {
            row: s if self._is_old[row] else replace(s, counts=None, entities=none, vectors=None)
            for row, s in found.items()
        }

    def _texts_of(self, rows: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for view, mine in self._by_side(rows):
            read = view._texts_of(self._own[mine].tolist())
            found |= {row: read[own] for row in mine.tolist() if (own := int(self._own[row])) in read}
        return found

    def _by_side(self, rows: Sequence[int]) -> list[tuple[CachedScopeView, np.ndarray]]:
        wanted = np.asarray(rows, np.int64)
        is_old = self._is_old[wanted]
        sides = ((self._built, wanted[is_old]), (self._pending, wanted[~is_old]))
        return [(view, mine) for view, mine in sides if len(mine)]

    def _arrays(self, part: str) -> Arrays:
        old, new = self._built._arrays(part), self._pending._arrays(part)
        if part in _BUILT:
            return old | {n: self._old[old[n]] for n in _BUILT[part] if n in old}
        return self._joins[part](old, new)

    @property
    def _joins(self) -> Mapping[str, Callable[[Arrays, Arrays], Arrays]]:
        return {
            "order": self._join_order,
            "written": lambda old, new: self._join_pairs("written", old, new),
            "periods": lambda old, new: self._join_pairs("periods", old, new),
            "withheld": _join_withheld,
            "reasons": self._join_reasons,
            "priors": lambda old, new: {n: self._merged(old[n], new[n]) for n in old},
            "links": self._join_links,
            "fields": self._join_fields,
            "metadata": self._join_metadata,
            "languages": _join_languages,
        }

    def _join_pairs(self, part: str, old: Arrays, new: Arrays) -> Arrays:
        """Joins rows of a part, in the order of its first column."""
        sides = [(a, at) for a, at in ((old, self._old), (new, self._new)) if a]
        if not sides:
            return {}
        names = [n for n in sides[0][0] if n != "tokens"]
        found = {n: np.concatenate([at[a[n]] if n in _PAIRS[part] else a[n] for a, at in sides]) for n in names}
        order = np.argsort(found["row"], kind="stable")
        return {n: values[order] for n, values in found.items()}

    def _join_order(self, old: Arrays, new: Arrays) -> Arrays:
        pairs = self._join_pairs("order", old, new)
        sides = ((old, self._old), (new, self._new))
        return pairs and pairs | {
            "tokens": self._merged(*(a.get("tokens", np.zeros(len(at), "<i4")) for a, at in sides))
        }

    def _join_reasons(self, old: Arrays, new: Arrays) -> Arrays:
        more = self._changes.reasons
        found = {n: [*old.get(n, ()), *new.get(n, ())] for n in ("ids", "reason")}
        found = {"ids": [*found["ids"], *(i for i, _ in more)], "reason": [*found["reason"], *(r for _, r in more)]}
        return found if found["ids"] else {}

    def _join_links(self, old: Arrays, new: Arrays) -> Arrays:
        nothing = np.zeros(0, np.int64)
        rows = known_rows(self._ids, [i for link in self._changes.links for i in link[:2]])
        added = [
            (rows[newer], rows[older], RELATION_LABELS.index(label), confidence)
            for newer, older, label, confidence in self._changes.links
            if newer in rows and older in rows
        ]
        found: Arrays = {
            n: np.concatenate([at[a.get(n, nothing)] for a, at in ((old, self._old), (new, self._new))]) for n in _LINKS
        }
        for n in ("label", "confidence"):
            found[n] = np.concatenate([a.get(n, nothing) for a in (old, new)])
        for n, values in zip(("newer", "older", "label", "confidence"), zip(*added, strict=True), strict=False):
            found[n] = np.concatenate([found[n], np.asarray(values)])
        return found if len(found["newer"]) or len(found["replaced"]) else {}

    def _join_fields(self, old: Arrays, new: Arrays) -> Arrays:
        if not old:
            return {}
        found: Arrays = {}
        for name in TEXTS:
            texts, code = _joined_texts(old[f"{name}.texts"], new[f"{name}.texts"])
            found |= {name: self._merged(old[name], _recoded(new[name], code)), f"{name}.texts": texts}
        for name in (*NUMBERS, *TIMES, *BOOLEANS, CLOCK):
            if name in old:
                found[name] = self._merged(old[name], new[name])
        texts, code = _joined_texts(old["tags.texts"], new["tags.texts"])
        rows = [self._old[old["tags.row"]], self._new[new["tags.row"]]]
        codes = [old["tags"], _recoded(new["tags"], code)]
        return found | {"tags.row": np.concatenate(rows), "tags": np.concatenate(codes), "tags.texts": texts}

    def _join_metadata(self, old: Arrays, new: Arrays) -> Arrays:
        if not old or not new:
            side, at = (old, self._old) if old else (new, self._new)
            if not side:
                return {}
            document = np.full(self._size, -1, "<i4")
            document[at] = side["document"]
            return side | {"document": document}
        offset = int(old["of"].max(initial=-1)) + 1
        found: Arrays = {
            "document": self._merged(old["document"], _recoded(new["document"], np.arange(len(new["of"])) + offset)),
            "of": np.concatenate([old["of"], new["of"] + offset]),
        }
        for name, texts_name in (("field", "fields"), ("value", "values")):
            texts, code = _joined_texts(old[texts_name], new[texts_name])
            found |= {name: np.concatenate([old[name], _recoded(new[name], code)]), texts_name: texts}
        return found


def _rarity(df: int, size: int) -> float:
    """Returns the weight of a term in Lucene's BM25, from how many of `size` memories have it."""
    return float(np.log1p((size - df + 0.5) / (df + 0.5)))


def _joined_texts(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Returns the distinct texts of both, and the number among them of each of the second."""
    numbers = {text: i for i, text in enumerate(old)}
    code = [numbers.setdefault(text, len(numbers)) for text in new]
    return list(numbers), np.array(code, "<i4")


def _recoded(codes: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Returns numbers in place of others; -1 stays."""
    found: np.ndarray = np.append(code, -1).astype("<i4")[codes]
    return found


def _join_withheld(old: Arrays, new: Arrays) -> Arrays:
    sides = [a for a in (old, new) if a]
    if not sides:
        return {}
    ends = np.unique(np.concatenate([a["ends"] for a in sides]))
    return {"ends": ends, "flags": np.max([a["flags"] for a in sides], axis=0)}


def _join_languages(old: Arrays, new: Arrays) -> Arrays:
    """Returns the languages of both; a side of English alone has none."""
    sides = [list(map(str, a.get("languages", ("en",)))) for a in (old, new)]
    found = sorted({*sides[0], *sides[1]})
    return {} if found == ["en"] else {"languages": found}
