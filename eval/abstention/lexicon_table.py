"""Makes data/models/word_kinds.npz from WordNet 3.0: `python -m palimpsest.eval.abstention.lexicon_table FOLDER`.

Debian's package wordnet-base has that folder. Of each word it keeps which senses it has, and which senses it is a case
of: synonyms, what it derives from, and kinds above it.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from palimpsest.core.progress import say
from palimpsest.query.answerability.lexicon import DERIVED, SAME, TABLE_FILE, AnswerKind, word_key
from palimpsest.text.tokenizer import tokenizer

_FILES = ("noun", "verb", "adj", "adv")
_SENSES = {"noun": 7, "verb": 6, "adj": 3, "adv": 1}  # the commonest of a word
_LEVELS = {"noun": 5, "verb": 2, "adj": 0, "adv": 0}  # of kinds above a sense
_MAX_BELOW = 1_500  # a sense of which more are kinds says too little: person, thing, act
_MAX_PIECES = 2  # words of more pieces of the tokenizer's vocabulary are rare
_KIND_OF = "@"
_DERIVED_FROM = "+=\\"
_KIND_LEVELS = 9
_ANSWERS = {
    AnswerKind.PERSON: ("person.1",),
    AnswerKind.NAME: ("organization.1", "location.1", "building.1", "facility.1"),
    AnswerKind.MONEY: ("cost.1", "payment.1", "sum.1"),
}


@dataclass
class WordNet:
    """The parts of WordNet that are read: senses of words and pointers between senses."""

    senses: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    pointers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    forms: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "WordNet":
        """Reads data, index and irregular forms."""
        out = cls()
        for part in _FILES:
            for fields in _lines(folder / f"data.{part}"):
                out._add_sense(part, fields)
            for fields in _lines(folder / f"index.{part}"):
                if "_" not in fields[0]:
                    out.senses[part, fields[0]] = [part[0] + s for s in fields[-int(fields[2]) :]]
                    out.forms.setdefault(fields[0], set()).add((part, fields[0]))
        for part in _FILES:
            for form, *lemmas in _lines(folder / f"{part}.exc"):
                out.forms.setdefault(form, set()).update((part, w) for w in lemmas if (part, w) in out.senses)
        for sense, pointers in out.pointers.items():
            for mark, target in pointers:
                if mark[0] == _KIND_OF:
                    out.below.setdefault(target, []).append(sense)
        return out

    def _add_sense(self, part: str, fields: Sequence[str]) -> None:
        at = 4 + 2 * int(fields[3], 16)
        marks = (fields[at + 1 + 4 * i : at + 5 + 4 * i] for i in range(int(fields[at])))
        parts = {"n": "n", "v": "v", "a": "a", "s": "a", "r": "a"}
        self.pointers[part[0] + fields[0]] = [(m, parts[p] + t) for m, t, p, _ in marks]

    def targets(self, sense: str, marks: str) -> list[str]:
        """Returns the senses that pointers of some marks lead to."""
        return [t for m, t in self.pointers.get(sense, ()) if m[0] in marks]

    def own(self, form: str) -> dict[str, str]:
        """Returns the senses of a form of a word, each with its part of speech."""
        lemmas = sorted(self.forms[form])
        return {s: part for part, w in lemmas for s in self.senses[part, w][: _SENSES[part]]}

    def reach(self, form: str, levels: dict[str, int]) -> dict[str, int]:
        """Returns the senses that a word is a case of, each with its distance."""
        own = self.own(form)
        out = dict.fromkeys(own, SAME)
        for sense in own:
            for target in self.targets(sense, _DERIVED_FROM):
                out.setdefault(target, DERIVED)
        for part in _FILES:
            front = [s for s, p in own.items() if p == part]
            for level in range(1, levels[part] + 1):
                front = [t for s in front for t in self.targets(s, _KIND_OF)]
                for target in front:
                    out[target] = min(out.get(target, DERIVED + level), DERIVED + level)
        return out

    def has_few_below(self, sense: str) -> bool:
        """Returns whether few senses are kinds of one."""
        seen, stack = {sense}, [sense]
        while stack and len(seen) <= _MAX_BELOW:
            for below in self.below.get(stack.pop(), ()):
                if below not in seen:
                    seen.add(below)
                    stack.append(below)
        return len(seen) <= _MAX_BELOW


def _lines(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="latin-1") as lines:
        for line in lines:
            if not line.startswith(" "):
                yield line.split(" | ")[0].split()


def lexicon_table(net: WordNet) -> dict[str, np.ndarray]:
    """Returns the arrays that `lexicon` reads."""
    forms = [f for f in net.forms if f.isascii() and f.isalpha() and len(_pieces(f)) <= _MAX_PIECES]
    forms.sort(key=word_key)
    reached = [net.reach(f, _LEVELS) for f in forms]
    few = {s: net.has_few_below(s) for s in {s for r in reached for s in r}}
    number = {s: i for i, s in enumerate(sorted(s for s, is_few in few.items() if is_few))}
    rows = [sorted((number[s], d) for s, d in r.items() if s in number) for r in reached]
    answers = [(kind, {net.senses["noun", w.split(".")[0]][0] for w in words}) for kind, words in _ANSWERS.items()]
    return {
        "words": np.array([word_key(f) for f in forms], np.uint64),
        "starts": np.cumsum([0, *map(len, rows)]).astype(np.uint32),
        "senses": np.array([s for row in rows for s, _ in row], np.uint32),
        "distances": np.array([d for row in rows for _, d in row], np.uint8),
        "answers": np.array([_answer(net, f, answers) for f in forms], np.uint8),
    }


def _pieces(word: str) -> list[int]:
    ids: list[int] = tokenizer().encode(word, add_special_tokens=False).ids
    return ids


def _answer(net: WordNet, form: str, answers: Sequence[tuple[AnswerKind, set[str]]]) -> int:
    first = [s for part, w in sorted(net.forms[form]) if part == "noun" for s in net.senses[part, w][:2]]
    above = set(first)
    for _ in range(_KIND_LEVELS):
        above |= {t for s in above for t in net.targets(s, _KIND_OF)}
    return next((kind for kind, senses in answers if senses & above), AnswerKind.NONE)


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder that has data.noun")
    table = lexicon_table(WordNet.read(parser.parse_args().folder))
    np.savez_compressed(
        Path("data") / TABLE_FILE,
        words=table["words"],
        starts=table["starts"],
        senses=table["senses"],
        distances=table["distances"],
        answers=table["answers"],
    )
    say(f"{TABLE_FILE}: {len(table['words'])} words, {len(table['senses'])} senses of them")


if __name__ == "__main__":
    main()
