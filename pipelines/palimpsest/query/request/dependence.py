"""What a question leaves open that only the turns before it can say: pronouns, and words that it omits.

A question is dependent only where a rule finds something open in it; any other question is searched as it is. A pronoun
that follows what it refers to inside the question is not open.
"""

import re
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from palimpsest.text.words import CALENDAR_WORDS, SEARCH_STOPWORDS, STOPWORDS, word_set

# Words of questions and turns by what they do: the small closed classes that need no parser.


TOKEN = re.compile(r"\w+(?:['’.-]\w+)*")  # noqa: RUF001
AUXILIARIES = word_set("""
am is are was were be been being do does did has have had will would shall should can could may might must isn't
aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't won't wouldn't shan't shouldn't can't couldn't
mustn't cannot who's what's where's when's how's why's it's he's she's that's there's
""")
QUESTION_WORDS = word_set("who whom whose what which when where why how who's what's where's when's how's why's")
PREPOSITIONS = word_set("""
about above across after against along among around at before behind below beside besides between by during for
from in into near of off on onto outside over per since through till to toward towards under until up upon via
with within without
""")
PLACE_PREPOSITIONS = word_set("at in into near inside through towards")
OPENERS = word_set("and but or so also then ok okay well oh right hm please thanks great good yes no")
DETERMINERS = word_set("the a an my our your his her its their this that these those each every")
HE_OR_SHE = word_set("he him his himself she her hers herself")
THEY = word_set("they them their theirs themselves")
IT = word_set("it its itself")
NEUTRAL_FILLERS = word_set("""
else more exactly precisely again too really instead elsewhere happen happens happened come came so not then
ever still now mean means tell say said about details detail reason one ones other others another both either
neither same please actually later earlier afterwards once yet go on think
""")
"""Words that ask for more of a subject without naming any."""
TIME_WORDS = CALENDAR_WORDS | word_set("""
year years month months week weeks day days spring summer autumn winter morning evening today yesterday tomorrow
now then later earlier before after since until ago last next beginning start end mid early late time past
change younger older young old first formerly previously originally recently today's
""")
_PERSON_NOUNS = word_set("""
aunt baby boss boy brother child client colleague cousin customer dad daughter father friend girl guide husband
kid landlady landlord man mayor mother mum nephew niece nurse parent partner person sister son student uncle vet
wife woman neighbour neighbor flatmate roommate chief lawyer dentist trainee employee clerk
""")
_PERSON_ENDINGS = ("er", "or", "ist", "ian", "ant", "eer")
_NO_PERSONS = word_set("""
number paper letter computer order water matter weather winter summer september october november december never
ever after under over other another whether either user router server printer tower river color floor door
doctorate chapter power register corner shower dinner horror outdoor indoor error mirror motor flavor interior exterior
""")
_NUMBER = re.compile(r"\d[\d.,:-]*\w{0,2}")


def tokens(text: str) -> list[str]:
    """Returns the words of a text, as written."""
    return TOKEN.findall(text)


def is_content(word: str) -> bool:
    """Returns whether a word says what a text is about: no function word, no filler."""
    folded = word.lower()
    return not (
        folded in SEARCH_STOPWORDS
        or folded in AUXILIARIES
        or folded in QUESTION_WORDS
        or folded in PREPOSITIONS
        or folded in OPENERS
        or folded in NEUTRAL_FILLERS
        or folded in HE_OR_SHE
        or folded in THEY
        or folded in IT
    )


def is_time(word: str) -> bool:
    """Returns whether a word is part of a date, or places something in time."""
    return word.lower() in TIME_WORDS or _NUMBER.fullmatch(word) is not None


def is_function_word(word: str) -> bool:
    """Returns whether a word, capitalized at the beginning of a sentence, is no name."""
    folded = word.lower()
    return (
        folded == "i" or folded in STOPWORDS or folded in CALENDAR_WORDS or folded in AUXILIARIES or folded in OPENERS
    )


def is_person_noun(word: str) -> bool:
    """Returns whether a common noun is a person: boss, singer."""
    stem = word.removesuffix("'s")
    if stem in _PERSON_NOUNS:
        return True
    return len(stem) > len("user") and stem not in _NO_PERSONS and stem.endswith(_PERSON_ENDINGS)


class Kind(Enum):
    """What a pronoun may refer to."""

    PERSON = "person"
    GROUP = "group"
    THING = "thing"
    PLACE = "place"


class Omission(Enum):
    """What a question omits."""

    NOTHING = "nothing"
    EVERYTHING = "everything"  # all but what it asks for: why, and since when
    FRAME = "frame"  # all but one phrase, which takes the place of another: and the catalogue
    TIME = "time"  # all but a time: and in April


@dataclass(frozen=True)
class OpenPronoun:
    """A pronoun that nothing in the question explains: its place in the text, and what it may refer to."""

    start: int
    end: int
    word: str
    kind: Kind


@dataclass(frozen=True)
class Dependence:
    """What a question leaves open.

    Attributes:
        omission: what it omits.
        pronouns: the pronouns that need a turn, in order.
        phrase: for `FRAME` and `TIME`, the words that it adds.
    """

    omission: Omission = Omission.NOTHING
    pronouns: tuple[OpenPronoun, ...] = ()
    phrase: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the question needs no turn."""
        return self.omission is Omission.NOTHING and not self.pronouns


_MAX_OMITTING = 9  # words of a question that may omit its verb
_MAX_OMITTING_LED = 6  # words of one that begins as: in which, for how many
_MAX_BARE = {"how": 3, "which": 2, "what": 2, "when": 2, "where": 2, "why": 3}
"""Words of a question without a verb, by its first: how many benches; which voice."""
_EXISTS = word_set("""
exist exists existed is are was were be been am isn't aren't wasn't weren't has have had will
""")
_EMPTY_IT_BEFORE = word_set("""
true possible likely safe ok okay fine allowed necessary clear worth better best easy hard wise that raining
snowing cold warm hot dark late early
""")
_EMPTY_IT_WITH_CLAUSE = word_set("take takes took cost costs mean means meant make makes")
_BEFORE_ONE = word_set("other which that this second first third last next")
_INVERTED = AUXILIARIES - word_set("have has had having")
_PLURALS = word_set("people children men women both")
_STOP = re.compile(r"[.!?]\s")
_CLAUSE_OPENERS = word_set("and but or when if that because which who where before after while than as")


def find_dependence(text: str) -> Dependence:
    """Returns what a question leaves open.

    Args:
        text: the question.
    """
    words = [(m.group(), m.start(), m.end()) for m in TOKEN.finditer(text)]
    if not words:
        return Dependence()
    department = "IT" if not text.isupper() else ""  # no pronoun
    plain = [w if w == department else w.lower().replace("\u2019", "'") for w, _, _ in words]
    begin = _skip_openers(plain)
    pronouns = _open_pronouns(words, plain, _sentence_ends(text, words))
    omission, at = _find_omission(plain, begin, words)
    phrase = (
        text[words[at][1] :].strip(" ?.!") if omission in (Omission.FRAME, Omission.TIME) and at < len(words) else ""
    )
    return Dependence(omission, tuple(pronouns), phrase)


def _skip_openers(plain: list[str]) -> int:
    begin = 0
    while begin < len(plain) and plain[begin] in OPENERS:
        begin += 1
    return begin


def _find_omission(plain: list[str], begin: int, words: list[tuple[str, int, int]]) -> tuple[Omission, int]:
    """Returns what is omitted, and the word at which the phrase of the question begins."""
    rest = plain[begin:]
    if rest[:2] in (["what", "about"], ["how", "about"]) and len(rest) > 2:
        return _omits_frame(plain, begin + 2, words)
    if not any(is_content(w) for w in rest):
        if any(is_time(w) for w in rest) and begin:
            return Omission.TIME, begin
        return Omission.EVERYTHING, begin
    has_verb = any(w in AUXILIARIES for w in rest)
    word_at = next((i for i, w in enumerate(rest[:3]) if w in QUESTION_WORDS), None)
    if has_verb:
        clause = begin and rest[0] in ("when", "if", "while", "before", "after", "since", "until")
        if clause and rest[1:2] and rest[1] not in AUXILIARIES:
            return Omission.TIME, begin
        return Omission.NOTHING, begin
    if word_at is not None:
        leads = all(w in PREPOSITIONS for w in rest[:word_at])
        if word_at and leads:
            return (Omission.EVERYTHING if len(rest) <= _MAX_OMITTING_LED else Omission.NOTHING), begin
        limit = _MAX_BARE.get(rest[0], 0) if not word_at else 0
        return (Omission.EVERYTHING if len(rest) <= limit else Omission.NOTHING), begin
    if begin and len(rest) <= _MAX_OMITTING:
        return _omits_frame(plain, begin, words)
    return Omission.NOTHING, begin


def _omits_frame(plain: list[str], at: int, words: list[tuple[str, int, int]]) -> tuple[Omission, int]:
    rest = [w for w in plain[at:] if w not in PREPOSITIONS and w not in DETERMINERS]
    if all(is_time(w) for w in rest):
        return Omission.TIME, at
    return Omission.FRAME, at


def _sentence_ends(text: str, words: list[tuple[str, int, int]]) -> frozenset[int]:
    """Returns the numbers of the words that end a sentence, the last one left out."""
    pairs = enumerate(pairwise(words))
    return frozenset(i for i, ((_, _, end), (_, start, _)) in pairs if _STOP.search(text[end:start]))


def _open_pronouns(words: list[tuple[str, int, int]], plain: list[str], ends: frozenset[int]) -> list[OpenPronoun]:
    found = []
    for i, (word, start, end) in enumerate(words):
        kind = _pronoun_kind(plain, i)
        if kind is None:
            continue
        explained = _explains_possessive if word.lower() in ("its", "their") else _explains
        clause = max((j for j in range(i) if j in ends or (j + 1 < i and plain[j + 1] in _CLAUSE_OPENERS)), default=-1)
        if not any(explained(words, plain, j, i, kind, j <= clause) for j in range(i)):
            found.append(OpenPronoun(start, end, word, kind))
    return found


def _pronoun_kind(plain: list[str], i: int) -> Kind | None:
    """Returns what the word refers to where it is a pronoun of the third person, else None."""
    word = plain[i]
    before = plain[i - 1] if i else ""
    after = plain[i + 1] if i + 1 < len(plain) else ""
    if word in HE_OR_SHE or word in ("he's", "she's"):
        return Kind.PERSON
    if word in THEY:
        return Kind.GROUP
    if word in IT:
        return None if _is_empty_it(plain, i) else Kind.THING
    if word == "there":
        return None if before in _EXISTS or after in _EXISTS or before == "what's" else Kind.PLACE
    governed = before in AUXILIARIES or before in PREPOSITIONS or before in ("do", "did", "done", "like")
    if word == "this" and after and is_content(after):  # of the reader's own place: this project
        return None
    if word in ("this", "that") and (governed or not before):
        relative = word == "that" and after in AUXILIARIES and before in AUXILIARIES
        return None if relative or (after and is_time(after)) else Kind.THING
    if word in ("these", "those") and governed and not (after and is_time(after)):
        return Kind.GROUP
    if word == "so" and before in ("do", "does", "did", "done"):
        return Kind.THING
    if word == "such" and after in ("a", "an") and governed:
        return Kind.THING
    if word in ("one", "ones") and before in _BEFORE_ONE:
        return Kind.GROUP
    named = word in ("former", "latter") and before == "the" and not (after and is_content(after))
    return Kind.GROUP if named else None


def _is_empty_it(plain: list[str], i: int) -> bool:
    """Returns whether `it` refers to what follows, as in: is it true that; what does it mean when."""
    rest = plain[i + 1 :]
    if not rest or plain[i] != "it":
        return False
    if rest[0] in _EMPTY_IT_BEFORE:
        return len(rest) > 1
    return rest[0] in _EMPTY_IT_WITH_CLAUSE and any(
        w in ("to", "when", "if", "that", "until", "before") for w in rest[1:]
    )


def _explains(
    words: list[tuple[str, int, int]], plain: list[str], j: int, i: int, kind: Kind, new_clause: bool
) -> bool:
    """Returns whether word j, before the pronoun i, is what that refers to.

    A pronoun refers to few words of its own clause; `new_clause` says that one begins between the two.
    """
    word = plain[j]
    if is_time(word) or word == "i":
        return False
    capital = words[j][0][0].isupper() and j > 0 and not is_function_word(word)
    if kind is Kind.PERSON:
        if word in ("who", "whose", "whom", "which"):
            return new_clause
        return (capital and plain[j - 1] not in ("in", "at", "into")) or is_person_noun(word)
    if kind is Kind.PLACE:
        return capital and plain[j - 1] in ("in", "at", "to", "from")
    if capital:
        return True
    if not new_clause or not is_content(word):
        return False
    if kind is Kind.GROUP and (word.endswith("s") or word in _PLURALS or plain[i] in ("one", "ones")):
        return True
    return j > 0 and any(w in DETERMINERS or w.endswith("'s") for w in plain[max(0, j - 2) : j])


def _explains_possessive(
    words: list[tuple[str, int, int]], plain: list[str], j: int, i: int, kind: Kind, new_clause: bool
) -> bool:
    """Returns whether word j may be the owner: in the same clause too, but not where the pronoun follows at once."""
    word = plain[j]
    if plain[i - 1] in _INVERTED or plain[i - 1] == "of" or is_time(word) or not is_content(word):
        return False
    if words[j][0][0].isupper() and j > 0 and not is_function_word(word):
        return True
    before = plain[max(0, j - 2) : j]
    return (
        any(w in DETERMINERS or w in ("which", "whose", "many") for w in before)
        or word.endswith("s")
        or word in _PLURALS
    )


# Names and phrases of turns that a follow-up may refer to.

_ID = re.compile(r"(?=\S*\d)(?=\S*[A-Z])\w+(?:[-.]\w+)+|[A-Z]{2,}+[^\W\d]*+\d\w*+")
_NO_PERSON_BEFORE = word_set("the a an our this each every")
_TITLES = word_set("dr mr mrs ms prof st")
_LINKS = word_set("of the de van von der and")  # inside a name: The Isle of Skye
_LABEL = re.compile(r"\s*(user|human|assistant|ai|bot|system)\s*:\s*", re.IGNORECASE)
_BE = word_set("is are was were")
_DEFINES = ("what's", "where's", *(f"{asks} {be}" for asks in ("what", "where") for be in sorted(_BE)))
_ASSISTANT = word_set("assistant ai bot system")
_QUESTION_BEGINS = 4  # words
_OPENING = 6  # words in which a question says what it wants
_NO_SUBJECT = AUXILIARIES | HE_OR_SHE | THEY | IT | word_set("i me you we us")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\bDr\.)(?<!\bM[rs]\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bSt\.)\s+")


@dataclass(frozen=True)
class Name:
    """A name in a turn.

    Attributes:
        text: the name.
        may_be_person: no article precedes it, no digit is in it, and it is at most three words.
        is_place: `in`, `at` or such a word precedes it.
        is_governed: another preposition precedes it: it is no subject.
        is_sure: it is capitalized inside a sentence, or has several words: the first word is always capitalized.
    """

    text: str
    may_be_person: bool
    is_place: bool
    is_governed: bool
    is_sure: bool


@dataclass(frozen=True)
class Turn:
    """What one side wrote.

    Attributes:
        text: the words, without a label such as `user:`.
        by_assistant: whether its label states that; None where it has none.
    """

    text: str
    by_assistant: bool | None = None

    @staticmethod
    def parse(text: str) -> "Turn":
        """Makes it of a turn as it was given, whose label may name the side."""
        label = _LABEL.match(text)
        if label is None:
            return Turn(text.strip())
        return Turn(text[label.end() :].strip(), label.group(1).lower() in _ASSISTANT)

    @property
    def is_question(self) -> bool:
        """Whether the turn asks: it has a question mark, or begins as a question with a verb does."""
        if self.by_assistant:
            return False
        words = [m.group().lower() for m in TOKEN.finditer(self.text)][:_QUESTION_BEGINS]
        if not words or "?" in self.text:
            return bool(words)
        return words[0] in AUXILIARIES or (words[0] in QUESTION_WORDS and any(w in AUXILIARIES for w in words[1:]))


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a turn."""
    return [s for s in _SENTENCE_END.split(text.strip()) if s]


def find_names(text: str) -> list[Name]:
    """Returns the names and ids in a text, in order, repeats included."""
    found: list[Name] = []
    for sentence in split_sentences(text):
        words = list(TOKEN.finditer(sentence))
        i = 0
        while i < len(words):
            if not _is_name_word(words[i].group()):
                i += 1
                continue
            end = i + 1
            while end < len(words) and _continues_name(sentence, words, end):
                end += 1
            while words[end - 1].group().lower() in _LINKS:
                end -= 1
            found.append(_make_name(sentence, words, i, end))
            i = end
    return found


def _is_name_word(word: str) -> bool:
    return bool(_ID.fullmatch(word)) or (word[0].isupper() and not is_function_word(word.removesuffix("'s")))


def _continues_name(sentence: str, words: list[re.Match[str]], i: int) -> bool:
    between = sentence[words[i - 1].end() : words[i].start()].strip()
    if between and not (between == "." and words[i - 1].group().lower() in _TITLES):
        return False
    word = words[i].group()
    if word.lower() in _LINKS - {"and"}:
        return any(_is_name_word(w.group()) for w in words[i + 1 : i + 3])
    return _is_name_word(word) or (word[0].isdigit() and len(word) > 1)


def _make_name(sentence: str, words: list[re.Match[str]], start: int, end: int) -> Name:
    text = sentence[words[start].start() : words[end - 1].end()].removesuffix("'s").removesuffix("\u2019s")
    before = words[start - 1].group().lower() if start else ""
    plain = all(w.group().replace("'s", "").replace("\u2019s", "").isalpha() for w in words[start:end])
    person = plain and before not in _NO_PERSON_BEFORE and end - start <= len(("first", "middle", "last"))
    place = before in PLACE_PREPOSITIONS
    governed = before in PREPOSITIONS and not place and before not in ("by", "with", "from")
    sure = start > 0 or end - start > 1 or not plain or len(words) == 1
    return Name(text, person, place, governed, sure)


def subject_phrase(question: str) -> str:
    """Returns what a question is about: its words without question words, auxiliaries and pronouns.

    Of one that asks who did something only the object: the verb says nothing of it.
    """
    words = [m.group() for m in TOKEN.finditer(question)]
    folded = [w.lower() for w in words]
    begin = 0
    while begin < len(words) and _leads(words[begin]):
        begin += 1
    opening = folded[:begin]
    if opening[-1:] == ["how"] and folded[begin + 1 : begin + 2] and folded[begin + 1] in AUXILIARIES:  # how wide is
        begin += 1
    elif opening and opening[-1] in ("who", "whom"):
        begin = next((i for i in range(begin, len(words)) if folded[i] in DETERMINERS or i > begin), begin)
    kept = [w for w in words[begin:] if w.lower() not in _NO_SUBJECT]
    while kept and not is_content(kept[-1]):
        kept.pop()
    return " ".join(kept)


def is_definition(question: str) -> bool:
    """Returns whether a question asks what or where its subject is: the subject stays what is spoken of."""
    words = [m.group().lower() for m in TOKEN.finditer(question)][:2]
    return " ".join(words).startswith(_DEFINES)


def person_defined(question: str) -> str:
    """Returns the name of whom a question asks who that is; "" where it asks another thing."""
    words = list(TOKEN.finditer(question))
    folded = [w.group().lower() for w in words[:2]]
    at = 1 if folded[:1] == ["who's"] else 2 if folded[:1] == ["who"] and folded[1:] and folded[1] in _BE else 0
    names = [n.text for n in find_names(question) if n.may_be_person] if at else []
    return names[0] if names and question[words[at - 1].end() :].lstrip().startswith(names[0]) else ""


def _leads(word: str) -> bool:
    folded = word.lower()
    return folded in QUESTION_WORDS or folded in AUXILIARIES or folded in OPENERS or folded in PREPOSITIONS


def content_words(text: str) -> list[str]:
    """Returns the words that say what a text is about, in order, times left out."""
    return [w for w in (m.group() for m in TOKEN.finditer(text)) if is_content(w) and not is_time(w)]


def asks_person(question: str) -> bool:
    """Returns whether a question wants a person: who, which singer, what is the name of your boss."""
    words = [m.group().lower() for m in TOKEN.finditer(question)][:_OPENING]
    word_at = next((i for i, w in enumerate(words) if w.removesuffix("'s") in QUESTION_WORDS), None)
    if word_at is None or words[word_at] not in ("which", "what"):
        return word_at is not None and words[word_at].startswith("who")
    heads = [
        w for w, following in zip(words[word_at + 1 :], words[word_at + 2 :], strict=False) if _ends_phrase(following)
    ]
    named = words[-1:] if words[word_at + 1 : word_at + 2] in (["is"], ["are"], ["was"], ["were"]) else []
    return any(is_person_noun(w) for w in [*words[word_at + 1 : word_at + 2], *heads, *named])


def _ends_phrase(following: str) -> bool:
    return following in AUXILIARIES or not is_content(following)


def person_phrase(text: str) -> str:
    """Returns the common noun of the first person that a text mentions; "" where it mentions none."""
    words = (m.group().removesuffix("'s") for m in TOKEN.finditer(text))
    return next((w for w in words if is_person_noun(w.lower())), "")
