"""What the change encoder reads: a new statement and the older ones of its scope that it may end, in one input.

`[CLS] newer [SEP] older 1 [SEP] older 2 [SEP] ...`, oldest first, each older one after how long before it was and who
said it. The encoder compares the candidates with each other: which of two similar notes is meant shows in the other.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.memories.embed import model_folder
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import content_words, stem_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_NEWER_TOKENS = 96
MAX_OLDER_TOKENS = 64
MAX_TOKENS = 512
_MAX_CHARS_OF_TOKEN = 6
_MAX_NAME_CHARS = 48
_CLS, _SEP = 101, 102


@dataclass(frozen=True)
class Statement:
    """A text as the encoder reads it.

    Attributes:
        text: of a memory.
        name: who said it.
        at: when it was said, on the clock of who said it.
    """

    text: str
    name: str = ""
    at: dt.datetime | None = None


@dataclass(frozen=True)
class Slot:
    """Where one older statement is in an input.

    Attributes:
        start: first token.
        end: one behind its last token.
        chars: (start, end) in its text of each token, (-1, -1) of what is not its text.
    """

    start: int
    end: int
    chars: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class ChangeInput:
    """One input of the encoder.

    Attributes:
        ids: token ids.
        types: 0 of the newer statement, 1 of the older ones.
        newer_end: one behind the last token of the newer statement.
        slots: of the older statements.
    """

    ids: list[int]
    types: list[int]
    newer_end: int
    slots: list[Slot]

    def pools(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the weights of tokens in the means of the older statements, (n, tokens), and of the newer."""
        older = np.zeros((len(self.slots), len(self.ids)), np.float32)
        for row, slot in enumerate(self.slots):
            older[row, slot.start : slot.end + 1] = 1.0 / (slot.end + 1 - slot.start)  # with its [SEP]
        newer = np.zeros((1, len(self.ids)), np.float32)
        newer[0, 1 : self.newer_end] = 1.0 / max(1, self.newer_end - 1)
        return older, newer


def load_tokenizer() -> "Tokenizer":
    """Returns the embedder's tokenizer, which is that of the encoders too, without padding and truncation."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def build_input(tokenizer: "Tokenizer", newer: Statement, older: Sequence[Statement]) -> ChangeInput:
    """Returns the input of one newer statement and its candidates, in the order of `older`.

    Args:
        tokenizer: of the encoder, without padding and truncation.
        newer: the statement that may end another.
        older: at most so many that 512 tokens have room for them; of a long text the sentences nearest to the newer
            one are read.
    """
    start, text = focus(newer.text, [o.text for o in older], MAX_NEWER_TOKENS)
    first = tokenizer.encode(_named(newer.name) + text, add_special_tokens=False).ids[:MAX_NEWER_TOKENS]
    ids = [_CLS, *first, _SEP]
    types = [0] * len(ids)
    slots: list[Slot] = []
    room = max(8, min(MAX_OLDER_TOKENS, (MAX_TOKENS - len(ids)) // max(1, len(older)) - 1))
    for statement in older:
        start, text = focus(statement.text, [newer.text], room)
        prefix = _gap(statement.at, newer.at) + _named(statement.name)
        encoded = tokenizer.encode(prefix + text, add_special_tokens=False)
        spans = [
            (a - len(prefix) + start, b - len(prefix) + start) if a >= len(prefix) else (-1, -1)
            for a, b in encoded.offsets[:room]
        ]
        at = len(ids)
        ids += [*encoded.ids[:room], _SEP]
        types += [1] * (len(ids) - at)
        slots.append(Slot(at, len(ids) - 1, spans))
    return ChangeInput(ids, types, 1 + len(first), slots)


def focus(text: str, others: Sequence[str], tokens: int) -> tuple[int, str]:
    """Returns (start, part) of a text that is too long: the sentences in a row that share most words with others."""
    limit = tokens * _MAX_CHARS_OF_TOKEN
    if len(text) <= limit:
        return 0, text
    spans = memory_sentence_spans(text)
    words = set().union(*(stem_words(content_words(other)) for other in others)) if others else set()
    shared = [len(stem_words(content_words(text[a:b])) & words) for a, b in spans]
    best, best_sum = (0, min(limit, len(text))), -1
    for first, (a, _) in enumerate(spans):
        end, total = a, 0
        for (_, b), n in zip(spans[first:], shared[first:], strict=True):
            if b - a > limit and end > a:
                break
            end, total = b, total + n
        if total > best_sum:
            best, best_sum = (a, min(end, a + limit)), total
    return best[0], text[best[0] : best[1]]


def _named(name: str) -> str:
    return f"{name[:_MAX_NAME_CHARS]}: " if name else ""


def _gap(older: dt.datetime | None, newer: dt.datetime | None) -> str:
    """Returns how long before the newer statement an older one was made, in words; days are those of their clocks."""
    if older is None or newer is None:
        return ""
    return f"({gap_words((newer.date() - older.date()).days)}) "


def gap_words(days: int) -> str:
    """Returns a number of days in words: `same day`, `3 days before`, `2 months before`."""
    if days <= 0:
        return "same day"
    if days == 1:
        return "a day before"
    for limit, unit, length in ((14, "days", 1.0), (60, "weeks", 7.0), (730, "months", 30.4)):
        if days < limit:
            return f"{round(days / length)} {unit} before"
    return f"{round(days / 365.25)} years before"
