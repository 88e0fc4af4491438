"""Parts of speech and lemmas of parsed tokens, computed once for each word in a role.

spaCy's attribute ruler and lemmatizer took half of the time of a parse (4.0 of 8.9 s for 2,000 turns). All but a few
patterns of the ruler read one token, and the lemmatizer reads only what the ruler found, so the result depends on a
token's text, tag and dependency. Documents where a pattern of several tokens matches pass through spaCy's own steps.
"""

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypedDict, cast

from spacy.language import Language
from spacy.matcher import Matcher
from spacy.pipeline import AttributeRuler
from spacy.tokens import Doc

_Key = tuple[int, int, int]

_READ_OF_A_TOKEN = frozenset({"LOWER", "ORTH", "TAG", "DEP", "IS_SPACE"})
_MAX_KEPT = 200_000  # about 40 MB


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
        self._known: dict[_Key, Form] = {}

    def of(self, docs: Sequence[Doc]) -> list[list[Form]]:
        """Returns the forms of the tokens of documents that have tags and dependencies, in order."""
        keys = [[(t.orth, t.tag, t.dep) for t in doc] for doc in docs]
        form_of = self._find(dict.fromkeys(chain.from_iterable(keys)))
        forms = ([form_of[key] for key in of_doc] for of_doc in keys)
        in_context = (self._of_context(doc, allow_missing=True) for doc in docs)
        return [
            self._apply(self._ruler, doc) if needed else of_doc
            for doc, needed, of_doc in zip(docs, in_context, forms, strict=True)
        ]

    def _find(self, keys: Collection[_Key]) -> dict[_Key, Form]:
        found = {key: form for key in keys if (form := self._known.get(key))}
        if missing := [key for key in keys if key not in found]:
            made = dict(zip(missing, self._apply(self._of_one_token, self._as_doc(missing)), strict=True))
            if len(self._known) + len(made) > _MAX_KEPT:
                self._known.clear()
            self._known.update(made)
            found |= made
        return found

    def _as_doc(self, keys: Sequence[_Key]) -> Doc:
        words, tags, deps = ([self._vocab.strings[n] for n in column] for column in zip(*keys, strict=True))
        return Doc(self._vocab, words=words, tags=tags, deps=deps, heads=list(range(len(words))))

    def _apply(self, ruler: AttributeRuler, doc: Doc) -> list[Form]:
        return [Form(t.pos_, t.lemma_.lower()) for t in self._lemmatizer(ruler(doc))]
