"""Words of questions and turns by what they do: the small closed classes that need no parser."""

import re

from palimpsest.text.stopwords import CALENDAR_WORDS, SEARCH_STOPWORDS, STOPWORDS


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a list that white space divides."""
    return frozenset(text.split())


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
