"""Names in one text: capitalised n-grams, acronyms and codes, each with the cue of its context.

No model runs here (decision 18): all of it is a pure function of the text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from palimpsest.text.words import CALENDAR_WORDS, STOPWORDS, fold, word_set

# Words that show what a name can be: a firm, a body, a place, a work, a people, an office. Part of the program.


FIRM = word_set("inc ltd llc gmbh corp corporation company plc ag group")
ORGANISATION = FIRM | word_set(
    """
    university institute college school committee agency bank council association foundation department ministry
    club society office union authority trust commission laboratory laboratories party church museum library
    hospital organisation organization federation
    """
)
PARTICLES = word_set("de del della di da dos du des la le van von der den y al el ibn bin")
LINKS = word_set("of the and for & in on at to")
PLACES = word_set(
    """
    street road avenue river lake mount mountain island islands city town county park bridge station airport square
    house hall room building tower valley bay beach hill hills coast sea ocean north south east west northern
    southern eastern western central upper lower new old great little saint st san santa district region province
    state republic kingdom empire territory area prison metro stadium arena forest desert peninsula strait canal dam
    port harbour castle palace cathedral airline airlines railway railways
    """
)
WORKS = word_set(
    """
    award awards prize cup day festival war battle treaty act law theory manual guide report plan project programme
    program model test show album song film tour series season league games championship bible literature music
    """
)
DEMONYMS = word_set(
    """
    american british english french german italian spanish chinese japanese russian indian irish scottish welsh
    dutch polish turkish greek roman european african asian canadian australian mexican brazilian swedish norwegian
    danish finnish egyptian israeli iranian jewish muslim catholic protestant native soviet arab latin
    """
)
SETTLEMENTS = word_set("city town municipality village borough commune")
OFFICES = word_set(
    """
    president king queen prince princess captain general major chief minister senator chancellor mayor governor
    judge pope bishop archbishop cardinal emperor justice secretary ambassador coach detective director chairman
    sultan
    """
)
PARTS_OF_NAMES = word_set("new first last great good old day time times works over down people")
BODIES = word_set(
    """
    institute institutes center centers centre centres council association foundation committee agency department
    ministry society campaign movement school bureau office commission fund union board alliance coalition party
    trust college academy group network programme program secretary minister prize award house court convention
    """
)
DEFINITE = word_set("the our its their his her my your this")
COUNTED = word_set(
    """
    many several few some all both these those more most two three four five six seven eight nine ten eleven twelve
    twenty thirty forty fifty hundred dozen
    """
)
ONE = word_set("a an each every one another")
WHERE = word_set("in near around inside outside throughout across")
RELATIVE = word_set(
    """
    brother sister mother father mum mom dad son daughter wife husband uncle aunt cousin nephew niece grandmother
    grandfather grandma grandpa neighbour neighbor flatmate roommate boss colleague friend girlfriend boyfriend
    """
)
OCCUPATION = word_set(
    """
    manager engineer director teacher doctor nurse lawyer artist singer actor actress writer author poet player
    politician footballer journalist scientist researcher student developer designer consultant accountant officer
    president minister chairman chairwoman secretary treasurer mayor founder chef musician composer painter dancer
    coach vet dentist
    """
)
MALE = word_set("mr sir lord herr")
FEMALE = word_set("mrs ms miss madam lady frau")
HONORIFICS = (
    MALE
    | FEMALE
    | word_set("dr doctor prof professor mx rev reverend hon capt col gen lt sgt sen gov lieutenant sergeant colonel")
)
ORDINARY = (
    (STOPWORDS - PARTS_OF_NAMES)
    | CALENDAR_WORDS
    | word_set(
        """
        i a mr mrs ms dr prof sir chapter section figure table note yay yo haha lol omg btw aww congrats congratulations
        woohoo two three four five six seven eight nine ten cause welcome cheers dear regards later earlier despite
        meanwhile recently finally initially eventually moreover furthermore nevertheless although unlike including
        following originally formerly currently awesome anytime woah bet besides
        """
    )
)
_ROMAN = re.compile(r"[ivx]+")


def is_full_name(tokens: list[str]) -> bool:
    """Returns whether the words of a key have the shape of a person's full name."""
    odd = ORGANISATION | LINKS | PLACES | WORKS | DEMONYMS
    plain = [t for t in tokens if t not in PARTICLES]
    if not 2 <= len(plain) <= 4 or odd & set(tokens) or len(plain[-1]) < 2 or _ROMAN.fullmatch(plain[-1]):
        return False
    return all(t.replace("-", "").replace("'", "").isalpha() and not t.endswith("'s") for t in plain)


# Cues in the words next to a name: an article, a number, a place word, what only people or only firms do.

LAST_WORD = re.compile(r"(?<![\w’'])([\w’']++)\s++[\"“‘'(]?$")  # noqa: RUF001
_ADDRESSED = re.compile(r"(?:^|[.!?,;]\s+|\b)(?:hey|hi|hello|dear|thanks|thank you|bye),?\s+$", re.IGNORECASE)
_ENDS_ADDRESS = re.compile(r"[!?]")
_SPEAKS = re.compile(
    r"(?:,?\s+who(?:se)?\b|\s+(?:said|says|asked|asks|told|tells|wrote|writes|replied|thinks|thought|wants|wanted|knows|"
    r"believes|believed|explained|laughed|smiled|hopes|apologised|apologized|reminded|retired|resigned|was born|"
    r"is married|(?:has |got )?married)\b|\s+\((?:born|b\.|née)\b|(?:,|\s+(?:is|was|became|has been|as))\s+"
    r"(?:(?:an?|the|our|my|their|her|his)\s+)?(?:[a-z-]+\s+){0,2}"
    rf"(?:{'|'.join(sorted(RELATIVE | OCCUPATION))})\b)"
)
_ACTS = re.compile(
    r"\s+(?:(?:has|had|have|will|would|can|also|now|again|only)\s+)*(?:suppl(?:y|ies|ied)|sells?|sold|offer(?:s|ed)?|"
    r"deliver(?:s|ed)?|announce[sd]?|acquire[sd]?|launche[sd]|sign(?:s|ed)|hire[sd]?|promise[sd]?|provide[sd]?|ship(?:s|ped)|"
    r"buys?|bought|own(?:s|ed)?|charge[sd]?|raise[sd]|manufacture[sd]?|produce[sd]?|publishe[sd]|release[sd]?|develop(?:s|ed)|"
    r"quote[sd]?|employ(?:s|ed)?|collects|invoice[sd]|pays?|paid|missed)\b"
)
_PRONOUN = re.compile(r"[^.!?;\n]{0,100}\b(?:he|she|him|her|his|hers|himself|herself)\b")


def context_cue(text: str, start: int, end: int) -> str:
    """Returns `the`, `one`, `many`, `in`, `person`, `acts` or nothing for the name at a span of a text."""
    before = text[max(0, start - 24) : start]
    m = LAST_WORD.search(before)
    word = m.group(1).lower() if m else ""
    if word in DEFINITE or word in ONE or word in WHERE:
        return "the" if word in DEFINITE else "one" if word in ONE else "in"
    if word in COUNTED or word.isdigit():
        return "many"
    if word == "at":
        return ""
    if _leading_honorific(text[start:end]) or word in RELATIVE or _SPEAKS.match(text, end) or _PRONOUN.match(text, end):
        return "person"
    if _ADDRESSED.search(before) or (before.endswith(", ") and _ENDS_ADDRESS.match(text, end)):
        return "person"
    return "acts" if _ACTS.match(text, end) else ""


def _leading_honorific(surface: str) -> str | None:
    """Returns the honorific that a name starts with, folded: `dr` of `Dr. Vale`; None without one."""
    first, _, rest = surface.partition(" ")
    plain = first.rstrip(".").lower()
    return plain if rest and plain in HONORIFICS else None


_UPPER = "A-ZÀ-ÖØ-Þ" + "".join(c for c in map(chr, range(0x100, 0x530)) if c.isupper())
_INITIAL = rf"(?<![\w.])[{_UPPER}]\.(?=\s+[{_UPPER}])"
_CAPITAL = rf"(?:{_INITIAL}|[{_UPPER}](?:[\w’'&.\-]*\w)?)"  # noqa: RUF001
_LINK = r"(?:of|the|de|del|della|di|da|dos|du|des|la|le|van|von|der|den|&|for|y|al|el|ibn|bin)"
_NAME = re.compile(rf"(?<!\w){_CAPITAL}(?:(?:\s+{_LINK}){{0,2}}\s+{_CAPITAL}|[^\S\n]+\d(?:[\w.\-]*\w)?)*")
CODE = re.compile(
    r"\b(?:[A-Za-z]{1,10}[-#]\d[\w-]*|[A-Z]{1,5}-[A-Z]{1,3}\d[\w-]*|[A-Z]{2,}\d\w*|[a-z]+(?:_[a-z0-9]+)+|[a-z]+[A-Z]\w+"
    r"|[\w-]{1,100}\.(?:py|md|js|ts|json|yaml|sql|toml))\b"
)
_PLACE_AFTER = re.compile(
    r"\s+(?:(?:(?:meeting|conference|board|class)\s?)?room|building|hall|street|road|avenue|station|bridge|square|house|"
    r"tower|wing|annex|hut|gate|lane)\b"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n]|[-*•]\s)[\s\"'“‘(\[*#>]{0,6}$")  # noqa: RUF001
_CHARS_BEFORE = 6
_CONTRACTION = re.compile(r"[’'](?:s|m|re|ve|ll|d|t)$")  # noqa: RUF001
MAX_NAME_CHARS = 80
_SHORT_LINE = 45  # characters: a longer line may be wrapped inside a name
_WORDS = re.compile(r"\S+")
_JOIN = re.compile(r"(?<!\s)(?:[^\S\n]*+\n\s*+|\s++for(?:\s++the)?\s++)")

_HONORIFIC = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(h.capitalize() for h in HONORIFICS))})\.?[ \t]+$")
_ONE_LETTER = re.compile(r"\b(\w)\.(?=\s)")


class MentionCandidate(NamedTuple):
    """What could be a name in a text: a row of the table `surfaces`, without its memory.

    Attributes:
        surface: the words as the text has them.
        key: the folded name, see `entity_key`.
        kind: name, acronym, code, role, or `stated`: the text says that `key` and `same_as` are one.
        initial: whether it is one word that starts a sentence, where any word has a capital.
        cue: of the words next to it: `the`, `one`, `many`, `in` (a place), `person` or `acts` (a firm).
        same_as: the key that the text says it refers to, None where it says none.
        why: in which words the text says so.
        char_start: first character in the text.
        char_end: the character after the last.
    """

    surface: str
    key: str
    kind: str
    initial: bool
    cue: str
    same_as: str | None
    why: str | None
    char_start: int
    char_end: int


def find_names(text: str) -> list[MentionCandidate]:
    """Returns the names and codes of a text, in order of place; spans are offsets in it."""
    out = []
    for start, end in _name_spans(text):
        if (found := _read_candidate(text, start, end)) is not None:
            out.append(found)
    for m in CODE.finditer(text):
        out.append(
            MentionCandidate(
                m.group(), entity_key(m.group()), "code", False, context_cue(text, *m.span()), None, None, *m.span()
            )
        )
    return sorted(out, key=lambda s: (s.char_start, -s.char_end, s.kind))


def _read_candidate(text: str, start: int, end: int) -> MentionCandidate | None:
    cue = ""
    if titled := _HONORIFIC.search(text, max(0, start - 16), start):
        start, cue = titled.start(), "person"
    elif after := _PLACE_AFTER.match(text, end):
        before = LAST_WORD.search(text, max(0, start - 24), start)
        if before and before.group(1).lower() == "the":
            end = after.end()
    surface = text[start:end]
    key = entity_key(surface)
    if not key or len(surface) > MAX_NAME_CHARS:
        return None
    one_word = not re.search(r"\s", surface)
    acronym = one_word and len(surface) > 1 and surface.isupper()
    initial = one_word and not acronym and bool(_SENTENCE_START.search(text[max(0, start - _CHARS_BEFORE) : start]))
    kind = "acronym" if acronym else "name"
    return MentionCandidate(surface, key, kind, initial, cue or context_cue(text, start, end), None, None, start, end)


def _name_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields the spans of capitalised n-grams, without ordinary words at their ends."""
    for start, end in _ngram_spans(text):
        words = [w.span() for w in _WORDS.finditer(text, start, end)]
        while words and _is_ordinary(text[words[-1][0] : words[-1][1]], False) and not text[words[-1][0]].isdigit():
            words.pop()
        while words and _starts_with_ordinary(text, words):
            words.pop(0)
        if words:
            end = words[-1][1]
            if text[end - 2 : end] in ("'s", "’s"):  # noqa: RUF001
                end -= 2
            yield words[0][0], end


def _ngram_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields spans of capitalised n-grams, split where a short line ends and at `for`, except in names of bodies."""
    for m in _NAME.finditer(text):
        start = m.start()
        for at in _JOIN.finditer(m.group()):
            end = m.start() + at.start()
            if at.group().strip():  # `Institute for Rivers`, but the bridge was built by Vale & Co. for Lindow
                is_end = text[start:end].rpartition(" ")[2].lower() not in BODIES
            else:
                is_end = end - (text.rfind("\n", 0, end) + 1) < _SHORT_LINE or at.group().count("\n") > 1
            if is_end:
                yield start, end
                start = m.start() + at.end()
        yield start, m.end()


def _starts_with_ordinary(text: str, words: list[tuple[int, int]]) -> bool:
    """Returns whether the first word is no part of the name; an initial is, where a word follows."""
    word = text[words[0][0] : words[0][1]]
    if len(words) > 1 and len(word) == 2 and word[1] == "." and word[0].isalpha():
        return False
    return _is_ordinary(word, len(words) == 1)


def _is_ordinary(word: str, alone: bool) -> bool:
    plain = _CONTRACTION.sub("", word.lower()).strip("’'.,&-")  # noqa: RUF001
    return plain in ORDINARY or len(plain) < 2 or word[0].isdigit() or (alone and plain in PARTS_OF_NAMES)


def entity_key(surface: str) -> str:
    """Returns what makes two spellings one entity: folded, without possessive, leading article or final point."""
    key = fold(surface).replace("’", "'").strip("'\".,;:- ")  # noqa: RUF001
    key = _ONE_LETTER.sub(r"\1", key.removesuffix("'s"))
    first, space, rest = key.partition(" ")
    if space and first.endswith(".") and first[:-1] in HONORIFICS:
        key = f"{first[:-1]} {rest}"
    return key.removeprefix("the ").strip()
