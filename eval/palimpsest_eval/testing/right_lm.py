"""A language model that reads rightly: it answers each program from known truth, by the text that a request shows.

The truth is that of small worlds, scopes of notes in which newer ones end older ones, or of a folder of right answers.
A folder has `turns.jsonl` (turns of conversations) and `truth.json`:

- `facts_now`, `facts_past`: [subject, predicate, object]; the turn that states one is found by its words
- `supersedes`: {newer, older, part}: ids of turns, and the words of the older one that the newer one ends
- `edges`: [source, type, target]; `nodes`: [name, type]

What a request does not show is in no answer: a statement is formed of the turns in the conversation, an entity named
where its name stands in the text, and a pair labelled by what its two texts state. Quotes are copied from the turns.
`FakeLMServer(chat=RightLm.of_folder(folder).chat)` serves it.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NotRequired, TypedDict

from palimpsest.core.ids import JsonObject
from palimpsest_eval.testing.fake_lm_server import program_answer, prompt_fields
from palimpsest_eval.testing.fake_programs import REFLECTION_FIELDS, turns_of

_OUTPUT = re.compile(r"^\d+\. `(\w+)`", re.MULTILINE)
_NUMBERED = re.compile(r"^\[(\d+|m\d+)\] (.*)$", re.MULTILINE)
_CLAUSE = re.compile(r"[,;]\s+|\s+(?:and|but)\s+")
_GAP = r"[\s,]+(?:[\w,]+\s+){0,3}?"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MIN_CLAUSE_WORDS = 3
_MIN_TEXT_LENGTH = 20
"""Characters from which a text that shows no whole turn states what it has the quote of."""
_CONFIDENCE = 0.95
_PREFERENCES = ("prefers", "likes", "dislikes")
_TYPES = {"project": "project", "organization": "organisation", "location": "place", "company": "organisation"}
_OPEN_TYPE = "topic"
"""Of what an edge names and the truth gives no type."""


class Note(TypedDict):
    """A note of a world."""

    n: int
    text: str


class Change(TypedDict):
    """A newer note, by its place, ends an older one, or the part of it that is quoted."""

    newer: int
    older: int
    part: str | None
    said: NotRequired[str]


class World(TypedDict):
    """A scope: its notes in order, and its changes."""

    id: str
    notes: list[Note]
    changes: list[Change]


class EndedTurn(TypedDict):
    """A turn that ends words of an older one."""

    newer: str
    older: str
    part: str


class Truth(TypedDict):
    """What a folder's `truth.json` has for the model."""

    facts_now: list[tuple[str, str, str]]
    facts_past: list[tuple[str, str, str]]
    supersedes: list[EndedTurn]
    edges: NotRequired[list[tuple[str, str, str]]]
    nodes: list[tuple[str, str]]


@dataclass(frozen=True)
class Statement:
    """What a turn states.

    Attributes:
        turn_id: of the turn.
        fact: subject, predicate and object of the truth.
        subject, object: the same as the turn has them; the speaker by name.
        quote: the words of the turn that state it. A world's note has these alone.
        is_edge: whether it is an edge between two things.
    """

    turn_id: str
    quote: str
    fact: tuple[str, str, str] = ("", "", "")
    subject: str = ""
    object: str = ""
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
    """Known statements, those of them that end others, and the answers to requests.

    Attributes:
        turns: text and speaker by id.
        statements: what they state.
        ended: (newer, older) of which the newer ends the older.
    """

    def __init__(self, turns: Mapping[str, Mapping[str, str]]):
        self.turns = turns
        self.statements: list[Statement] = []
        self.ended: list[tuple[Statement, Statement]] = []
        self._types: dict[str, str] = {}
        self._lines = {turn_id: _one_line(turn["text"]) for turn_id, turn in turns.items()}
        self._turns_of: dict[str, list[str]] = {}
        for turn_id, line in self._lines.items():
            self._turns_of.setdefault(line, []).append(turn_id)

    @classmethod
    def of_folder(cls, folder: Path) -> "RightLm":
        """Reads a folder with `turns.jsonl` and `truth.json`."""
        rows = map(json.loads, (folder / "turns.jsonl").read_text(encoding="utf-8").splitlines())
        truth: Truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        lm = cls({row["id"]: row for row in rows})
        stated = [lm._place((s, p, o)) for s, p, o in [*truth["facts_now"], *truth["facts_past"]]]
        edges = [lm._place((s, p, o), is_edge=True) for s, p, o in truth.get("edges", ())]
        lm.statements = [s for s in (*stated, *edges) if s is not None]
        lm.ended = list(lm._ended(truth["supersedes"]))
        lm._types = {name: _TYPES.get(kind, kind) for name, kind in truth["nodes"]}
        return lm

    @classmethod
    def of_worlds(cls, worlds: Sequence[World]) -> "RightLm":
        """Takes the notes and changes of worlds."""
        lm = cls({f"{w['id']}/{i}": {"text": note["text"]} for w in worlds for i, note in enumerate(w["notes"])})
        for world in worlds:
            for change in world["changes"]:
                newer, older = f"{world['id']}/{change['newer']}", f"{world['id']}/{change['older']}"
                new = Statement(newer, change.get("said") or lm._lines[newer])
                lm.ended.append((new, Statement(older, change["part"] or lm._lines[older])))
        lm.statements = [statement for pair in lm.ended for statement in pair]
        return lm

    @classmethod
    def of_worlds_file(cls, path: Path) -> "RightLm":
        """Reads a JSONL file of worlds."""
        return cls.of_worlds([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])

    def chat(self, messages: Sequence[str]) -> str:
        """Returns the answer to a request of any program, in its form."""
        prompt = messages[-1]
        if prompt.startswith("{") and '"sentences"' in prompt:
            rows = json.loads(prompt)["sentences"]
            return json.dumps({"summary": [{"text": r["text"], "from": [r["number"]]} for r in rows]})
        shown = prompt_fields(prompt)
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
            if "contradictions" in answer:
                answer["contradictions"] = self._contradictions(_NUMBERED.findall(shown.get("memories", "")))
        return program_answer(answer, as_json="JSON object" in prompt)

    def _reflection(self, prompt: str) -> JsonObject:
        parts: dict[str, list[JsonObject]] = {name: [] for name in REFLECTION_FIELDS}
        for number, _, text in turns_of(prompt):
            for statement in self._stated_in(text):
                quoted: JsonObject = {"turn": number, "quote": statement.quote}
                if statement.predicate.partition(" ")[0] in _PREFERENCES:
                    about: JsonObject = {"description": statement.sentence, "confidence": 0.9, "evidence": [quoted]}
                    parts["preferences"].append(about)
                else:
                    fact: JsonObject = {
                        "statement": statement.sentence,
                        "source_turn": number,
                        "quote": statement.quote,
                    }
                    parts["facts"].append(fact)
        return dict(parts)

    def _extraction(self, text: str, speaker: str) -> JsonObject:
        stated = self._stated_in(text)
        named = {end: (self._types.get(name, ""), s.is_edge) for s in stated for end, name in _ends(s)}
        named |= {where: (kind, False) for name, kind in self._types.items() if (where := words_in(text, name))}
        entities: list[JsonObject] = [
            {"type": kind or (_OPEN_TYPE if is_edge else "concept"), "name": name, "importance": 0.7}
            for name, (kind, is_edge) in sorted(named.items())
            if (kind or is_edge or name in {s.subject for s in stated}) and name != speaker
        ]
        relationships: list[JsonObject] = [
            {"source": s.subject, "target": s.object, "type": "_".join(s.predicate.split()), "fact": s.quote}
            for s in stated
        ]
        return {"entities": entities, "relationships": relationships}

    def _label(self, older: str, newer: str) -> JsonObject:
        """Returns the answer about one older text; `older` may begin with its date and who said it."""
        quotes = self._change(older, self._stated_in(older), newer, self._stated_in(newer))
        older_quote, newer_quote = quotes or (older, newer)
        label, conflict = ("UPDATE", "dynamic") if quotes else ("NONE", "none")
        answer: JsonObject = {"older_quote": older_quote, "newer_quote": newer_quote, "label": label}
        return answer | {"confidence": _CONFIDENCE, "conflict": conflict}

    def _labels(self, numbered: Sequence[tuple[str, str]], newer: str) -> list[JsonObject]:
        """Returns the labels of several older statements by their numbers, those that are not NONE."""
        found = [{"number": int(number)} | self._label(line, newer) for number, line in numbered]
        return [label for label in found if label["label"] != "NONE"]

    def _contradictions(self, memories: Sequence[tuple[str, str]]) -> list[JsonObject]:
        """Returns the pairs of memories of which one ends the other."""
        stated = [(number, line, self._stated_in(line)) for number, line in memories]
        return [
            {"memories": [old, new], "kind": "dynamic", "quotes": list(quotes), "confidence": _CONFIDENCE}
            for new, newer, of_newer in stated
            for old, older, of_older in stated
            if (quotes := self._change(older, of_older, newer, of_newer))
        ]

    def _change(
        self, older: str, of_older: Collection[Statement], newer: str, of_newer: Collection[Statement]
    ) -> tuple[str, str] | None:
        """Returns quotes of an older text and of the newer that ends what it states; None where nothing ends."""
        pairs = [(new, old) for new, old in self.ended if new in of_newer and old in of_older]
        return (_cover(older, [old for _, old in pairs]), _cover(newer, [new for new, _ in pairs])) if pairs else None

    def _stated_in(self, text: str) -> list[Statement]:
        """Returns the statements of the turns that a text shows, or that it quotes, or the one that it is."""
        if found := [s for s in self.statements if s.fact[1] and s.sentence == text]:
            return found
        line = _one_line(text)
        parts = [line, *(line[at.end() :] for at in re.finditer(": ", line))]  # before it: its date and who said it
        shown = {i for part in parts for i in self._turns_of.get(part, ())}
        shown = shown or {i for turn, ids in self._turns_of.items() if turn in line for i in ids}
        if shown or len(text) <= _MIN_TEXT_LENGTH:
            return [s for s in self.statements if s.turn_id in shown]
        return [s for s in self.statements if s.quote in text]

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
                    best = share, Statement(turn_id, quote, fact, subject, object_, is_edge)
        return best[1] if best else None

    def _ended(self, rows: Sequence[EndedTurn]) -> Iterator[tuple[Statement, Statement]]:
        """Yields (newer, older) statements by the truth; adds those that it names by their words alone."""
        matched, open_rows = set[Statement](), list[EndedTurn]()
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
    """Returns the part of a text from the first to the last quote of statements, all of it where it has none."""
    places = [(at, at + len(s.quote)) for s in statements if (at := text.find(s.quote)) >= 0]
    return text[min(a for a, _ in places) : max(b for _, b in places)] if places else _after_place(text)


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
