"""A language model that reads rightly: it answers each program from a truth file, by the text that a request shows.

A folder of right answers has `turns.jsonl` (turns of conversations) and `truth.json`:

- `facts_now`, `facts_past`: [subject, predicate, object]; the turn that states one is found by its words
- `supersedes`: {newer, older, part}: ids of turns, and the words of the older one that the newer one ends
- `edges`: [source, type, target]; `nodes`: [name, type]

What a request does not show is in no answer: a statement is formed of the turns in the conversation, an entity named
where its name stands in the text, and a pair labelled by what its two texts state. Quotes are copied from the turns.
`FakeLMServer(chat=RightLm(folder).chat)` serves it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from palimpsest_eval.testing.fake_lm_server import program_answer
from palimpsest_eval.testing.fake_reflection import REFLECTION_FIELDS, turns_of

_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\s*\n(.*?)(?=\n\s*\[\[ ## |\n+Respond with|\Z)", re.DOTALL)
_OUTPUT = re.compile(r"^\d+\. `(\w+)`", re.MULTILINE)
_NUMBERED = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_CLAUSE = re.compile(r"[,;]\s+|\s+(?:and|but)\s+")
_GAP = r"[\s,]+(?:[\w,]+\s+){0,3}?"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MIN_CLAUSE_WORDS = 3
_PREFERENCES = ("prefers", "likes", "dislikes")
_TYPES = {"project": "project", "organization": "organisation", "location": "place", "company": "organisation"}
_OPEN_TYPE = "topic"
"""Of what an edge names and the truth gives no type."""


@dataclass(frozen=True)
class Statement:
    """What a turn states.

    Attributes:
        turn_id: of the turn.
        fact: subject, predicate and object of the truth.
        subject, object: the same as the turn has them; the speaker by name.
        quote: the words of the turn that state it.
        is_edge: whether it is an edge between two things.
    """

    turn_id: str
    fact: tuple[str, str, str]
    subject: str
    object: str
    quote: str
    is_edge: bool = False

    @property
    def predicate(self) -> str:
        """What it states of the subject, in words."""
        return self.fact[1].replace("_", " ")

    @cached_property
    def sentence(self) -> str:
        """It as a sentence that can be read alone."""
        words = self.predicate
        if words.endswith(" of"):
            text = f"{self.subject} is {words} {self.object}"
        elif words.partition(" ")[0].endswith("s"):
            text = f"{self.subject} {words} {self.object}"
        else:
            text = f"{self.subject}'s {words} is {self.object}"
        return text[0].upper() + text[1:] + "."


class RightLm:
    """The truth of a folder, and the answers to requests.

    Args:
        folder: with `turns.jsonl` and `truth.json`.
    """

    def __init__(self, folder: Path):
        rows = map(json.loads, (folder / "turns.jsonl").read_text(encoding="utf-8").splitlines())
        self.turns: dict[str, dict[str, str]] = {row["id"]: row for row in rows}
        self.truth: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        facts = [*self.truth["facts_now"], *self.truth["facts_past"]]
        stated = [self._place((s, p, o)) for s, p, o in facts]
        edges = [self._place((s, p, o), is_edge=True) for s, p, o in self.truth.get("edges", ())]
        self.statements: list[Statement] = [s for s in (*stated, *edges) if s is not None]
        self.ended: list[tuple[Statement, Statement]] = list(self._ended())

    def chat(self, messages: Sequence[str]) -> str:
        """Returns the answer to a request of any program, in its form."""
        prompt = messages[-1]
        if prompt.startswith("{") and '"sentences"' in prompt:
            rows = json.loads(prompt)["sentences"]
            return json.dumps({"summary": [{"text": r["text"], "from": [r["number"]]} for r in rows]})
        shown = {name: value.strip() for name, value in _FIELD.findall(prompt)}
        if "conversation" in shown:
            answer = self._reflection(prompt)
        elif "text" in shown:
            answer = self._extraction(shown["text"], shown.get("speaker", ""))
        elif numbered := _NUMBERED.findall(shown.get("older", "")):
            answer = {"relations": self._labels(numbered, shown["newer"])}
        elif "older" in shown:
            answer = self._label(shown["older"], shown["newer"])
        else:
            answer = {name: [] for name in _OUTPUT.findall(messages[0].partition("output fields")[2])}
        return program_answer(answer, as_json="JSON object" in prompt)

    def _reflection(self, prompt: str) -> dict[str, object]:
        parts: dict[str, list[dict[str, object]]] = {name: [] for name in REFLECTION_FIELDS}
        for number, _, text in turns_of(prompt):
            for statement in self._stated_in(text):
                quoted = {"turn": number, "quote": statement.quote}
                if statement.predicate.partition(" ")[0] in _PREFERENCES:
                    about = {"description": statement.sentence, "confidence": 0.9, "evidence": [quoted]}
                    parts["preferences"].append(about)
                else:
                    fact = {"statement": statement.sentence, "source_turn": number, "quote": statement.quote}
                    parts["facts"].append(fact)
        return dict(parts)

    def _extraction(self, text: str, speaker: str) -> dict[str, object]:
        stated = self._stated_in(text)
        types = {name: _TYPES.get(kind, kind) for name, kind in self.truth["nodes"]}
        named = {end: (types.get(name, ""), s.is_edge) for s in stated for end, name in _ends(s)}
        named |= {where: (kind, False) for name, kind in types.items() if (where := words_in(text, name))}
        entities = [
            {"type": kind or (_OPEN_TYPE if is_edge else "concept"), "name": name, "importance": 0.7}
            for name, (kind, is_edge) in sorted(named.items())
            if (kind or is_edge or name in {s.subject for s in stated}) and name != speaker
        ]
        relationships = [
            {"source": s.subject, "target": s.object, "type": "_".join(s.predicate.split()), "fact": s.quote}
            for s in stated
        ]
        return {"entities": entities, "relationships": relationships}

    def _label(self, older: str, newer: str) -> dict[str, object]:
        of_older, of_newer = self._stated_in(older), self._stated_in(newer)
        pairs = [(new, old) for new, old in self.ended if new in of_newer and old in of_older]
        answer = {"older_quote": older, "newer_quote": newer, "label": "NONE", "confidence": 0.9, "conflict": "none"}
        if not pairs:
            return answer
        olds, news = [old for _, old in pairs], [new for new, _ in pairs]
        quotes = {"older_quote": _cover(older, olds), "newer_quote": _cover(newer, news)}
        return answer | quotes | {"label": "UPDATE", "conflict": "dynamic"}

    def _labels(self, numbered: Sequence[tuple[str, str]], newer: str) -> list[dict[str, object]]:
        """Returns the labels of several older statements by their numbers, those that are not NONE."""
        found = [{"number": int(number)} | self._label(_after_place(line), newer) for number, line in numbered]
        return [label for label in found if label["label"] != "NONE"]

    def _stated_in(self, text: str) -> list[Statement]:
        """Returns the statements of the turns that a text shows, or the one that it is."""
        if found := [s for s in self.statements if s.sentence == text]:
            return found
        shown = {i for i, turn in self.turns.items() if _one_line(turn["text"]) in _one_line(text)}
        return [s for s in self.statements if s.turn_id in shown or (len(text) > 20 and s.quote in text)]

    def _place(self, fact: tuple[str, str, str], is_edge: bool = False) -> Statement | None:
        """Returns the fact as the first turn states it that has most of its object, and its subject.

        The quote is the shortest clause or sentence with both; of a subject in another sentence, the one with the
        object.
        """
        best: tuple[float, Statement] | None = None
        for turn_id, turn in self.turns.items():
            text, speaker = turn["text"], turn["speaker"]
            elsewhere = _end_in(text, fact[0], speaker)
            for quote in _spans(text):
                object_, here = _end_in(quote, fact[2], speaker), _end_in(quote, fact[0], speaker)
                is_one_sentence = len(_SENTENCE.split(quote)) == 1
                subject = here or (elsewhere if is_one_sentence else "")
                share = len(set(object_.split()) & set(fact[2].split())) + 0.1 * bool(here and is_one_sentence)
                if subject and object_ and (best is None or share > best[0]):
                    best = share, Statement(turn_id, fact, subject, object_, quote, is_edge)
        return best[1] if best else None

    def _ended(self) -> Iterator[tuple[Statement, Statement]]:
        """Yields (newer, older) statements by the truth; adds those that it names by their words alone."""
        rows, matched = self.truth["supersedes"], set[Statement]()
        open_rows = []
        for row in rows:
            found = [
                (new, old)
                for new in self._of_turn(row["newer"])
                for old in self._of_turn(row["older"])
                if new.fact[1] == old.fact[1] and {new.fact[0], new.fact[2]} & {old.fact[0], old.fact[2]}
                if old.object in row["part"] or row["part"] in old.quote or old.quote in row["part"]
            ]
            matched.update(new for new, _ in found)
            open_rows += [] if found else [row]
            yield from found
        for row in open_rows:
            new = next((s for s in self._of_turn(row["newer"]) if s not in matched and not s.is_edge), None)
            if new is not None:
                quote = next((q for q in _spans(self.turns[row["older"]]["text"]) if row["part"] in q), row["part"])
                old = replace(new, turn_id=row["older"], object=row["part"], quote=quote)
                self.statements.append(old)
                matched.add(new)
                yield new, old

    def _of_turn(self, turn_id: str) -> list[Statement]:
        return [s for s in self.statements if s.turn_id == turn_id]


def _after_place(line: str) -> str:
    """Returns the text of a line that begins with its date and who said it."""
    return line.partition(": ")[2] or line


def _ends(statement: Statement) -> list[tuple[str, str]]:
    """Returns the ends of a statement as the turn has them, each with its name in the truth."""
    return [(statement.subject, statement.fact[0]), (statement.object, statement.fact[2])]


def _cover(text: str, statements: Sequence[Statement]) -> str:
    """Returns the part of a text from the first to the last quote of statements; all of it where it has none."""
    places = [(at, at + len(s.quote)) for s in statements if (at := text.find(s.quote)) >= 0]
    return text[min(a for a, _ in places) : max(b for _, b in places)] if places else text


def words_in(text: str, name: str) -> str:
    """Returns a name as a text has it: all of it, else the longest run of its words; empty without them.

    The words of a name may be in the plural, and a day have an ending. A run of a longer name counts where it has a
    capital or a number, and all numbers of the name.
    """
    words = name.split()
    for size in range(len(words), 0, -1):
        for start in range(len(words) - size + 1):
            run = words[start : start + size]
            pattern = r"\b" + _GAP.join(map(_word_pattern, run)) + r"\b"
            found = re.search(pattern, text, re.IGNORECASE)
            is_telling = size == len(words) or any(w[:1].isupper() or w.isdigit() for w in run)
            if found and is_telling and all(w in run for w in words if w.isdigit()):
                if size < len(words) and not any(w.isdigit() for w in run) and not found[0][:1].isupper():
                    continue
                return found[0]
    return ""


def _word_pattern(word: str) -> str:
    bare = re.escape(word.strip(",."))
    if word.isdigit():
        return bare + r"(?:st|nd|rd|th)?"
    return bare.removesuffix("s") + "s?" if len(word) > 3 else bare


def _end_in(text: str, name: str, speaker: str) -> str:
    """Returns an end of a fact as a text has it; who speaks is in all that they say."""
    return speaker if name == speaker else words_in(text, name)


def _spans(text: str) -> list[str]:
    """Returns the clauses of at least three words, the sentences and the whole of a text, the shortest first."""
    sentences = _SENTENCE.split(text)
    clauses = [c for s in sentences for c in _CLAUSE.split(s) if len(c.split()) >= _MIN_CLAUSE_WORDS]
    return sorted({*clauses, *sentences, text}, key=lambda q: (len(q), text.find(q)))


def _one_line(text: str) -> str:
    return " ".join(text.split())
