"""Words of a text: foldings of their spellings, lists of those that count for nothing, content words and stems."""

import re
import unicodedata

# Folding: the forms in which spellings of one word are equal.

_KANA_MARKS = "\u3099\u309a"
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a list that white space separates."""
    return frozenset(text.split())


def fold(text: str) -> str:
    """Returns the text in lower case, without accents, with single spaces: for comparing names and words.

    Only the general combining marks are dropped: the vowel signs of other scripts distinguish words.
    """
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.lower()))
    return " ".join(text.lower().split())


def strip_accents(text: str) -> str:
    """Returns the text without accents and compatibility forms, in its own case: for search terms.

    Unlike `fold` it keeps case, which splits `camelCase` and marks names, and drops every combining mark of every
    script, so that a query typed without them finds the text. The marks of kana stay: they tell consonants apart.
    """
    if text.isascii():
        return text
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if c in _KANA_MARKS or not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare)  # kana and Hangul as they are written


# Every list of words that count for nothing, and who uses which.
#
# The lists are part of the program, not learned from a corpus, so that what two memories share is a function of those
# two alone and a build that changed a little equals a build from scratch (decision 15). They differ because their uses
# do: a comparison of two memories ignores everything that says little, a search ignores only what almost every text
# has.

_FUNCTION_WORDS = """
a about above across after again against ago ah all almost along already also although always am among an and another
any anybody anymore anyone anything anyway are aren around as at away back be because been before behind being below
beside besides between beyond both but by can cannot could couldn did didn do does doesn doing don done down during
each either else enough even ever every everybody everyone everything everywhere except few for from further had hadn
has hasn have haven having he hence her here hers herself hey hi him himself his how however if in indeed instead into
is isn it its itself just least less let like likely ll lot lots many may maybe me might mine more most mostly much
must mustn my myself neither never next no nobody none nor not nothing now nowhere of off often oh ok okay on once one
ones only onto or other others otherwise our ours ourselves out over own per perhaps please quite rather re really
right s same shall shan she should shouldn since so some somebody somehow someone something sometimes somewhere soon
still such sure t than thank thanks that the their theirs them themselves then there therefore these they thing things
this those though through throughout thus till to together too toward towards under unless until up upon us usually ve
very via was wasn way we well were weren what whatever when whenever where wherever whether which while who whoever
whole whom whose why will with within without won would wouldn yeah yep yes yet you your yours yourself yourselves
"""
_FILLERS = """
actually alright basically bit bye cool definitely exactly fine gonna good got great guess guy guys hello hm hmm hmmm
huh kind kinda literally look looks mean mm mmm nice obviously ooh pretty probably said say says see seems simply
sorry sort stuff suppose tell think thought totally true uh uhm um wanna want wants whoa wow get gets getting give
given go goes going gone know knows known make makes made making need needs put take takes taken taking try trying use
used using went work works come comes coming came keep kept day days time times today tomorrow yesterday year years
week weeks month months new old first last lots people person year's
"""
_CALENDAR_WORDS = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec
"""
_SEARCH_STOPWORDS = """
a an and are as at be but by did do does for had has have he her him his how i if in into is it its me my no not of on
or our she such that the their them then there these they this to us was we were what when where which who whom whose
why will with you your
"""
_NON_TOPIC_WORDS = """
able actual bad bigger best better big brought call called case certain change changed check clear close different
done easy either example exactly far feel feels felt find fine first follow found full general glad happen happened
happy hard heard help high hope idea ideas important include included interested interesting issue keep large later
leave left less long longer looked looking love low main maybe member mention mentioned move moved moment name need
number open part place point points possible problem question quite ready real reason run sense set shall short side
simple small soon special start started stay still stop sure talk talked talking thats theres top turn using various
wait wanted watch wonder wonderful worked working write wrong yeah dont doesnt didnt youre ive im lets hes shes gonna
wanna whole next particular basis amount level current difference challenge congrats congratulations aww ttyl awesome
amazing lol omg great super fun also would could should however cannot every since already two three four five six
seven eight nine ten hundred thousand million second third minute minutes hour hours night morning evening afternoon
weekend
"""

STOPWORDS = frozenset(_FUNCTION_WORDS.split()) | frozenset(_FILLERS.split())
"""Function words and fillers: ignored where two memories are compared, and never a name."""

CALENDAR_WORDS = frozenset(_CALENDAR_WORDS.split())
"""Names of days and months, whole and short."""

SEARCH_STOPWORDS = frozenset(_SEARCH_STOPWORDS.split())
"""Ignored in the index and in queries: articles, pronouns, auxiliaries and question words.

Shorter than STOPWORDS: prepositions that tell times apart (from, before, after, until) are terms, because `from 2004 to
2005` is found by them.
"""

NON_TOPIC_WORDS = STOPWORDS | CALENDAR_WORDS | frozenset(_NON_TOPIC_WORDS.split())
"""Words that are no topic: STOPWORDS, CALENDAR_WORDS, and words that texts about anything use."""


# The content words of a text, and their stems: what two memories are compared by.

_NOT_CONTENT = STOPWORDS | CALENDAR_WORDS
_WORD = re.compile(r"[^\W_](?:[\w\-./]*[^\W_])?")
_TRANSCRIBER_MARK = re.compile(r"\{\w+\}")
_ENDINGS = ("ings", "ing", "ies", "ed", "es", "s", "e")
_MIN_STEM_CHARS = 3


def is_content_word(word: str) -> bool:
    """Returns whether a folded word is no function word, filler or calendar word, and has 3 letters or a digit."""
    return word not in _NOT_CONTENT and (len(word) > 2 or any(c.isdigit() for c in word))


def content_words(text: str) -> frozenset[str]:
    """Returns the folded content words of a text; transcribers' marks such as `{laugh}` are not words."""
    return frozenset(w for w in _WORD.findall(_TRANSCRIBER_MARK.sub(" ", fold(text))) if is_content_word(w))


def stem_words(words: frozenset[str]) -> frozenset[str]:
    """Returns the words without the commonest English endings.

    Not the Snowball stems of `terms`: the rules that compare two memories were written for these.
    """
    return frozenset(map(_stem, words))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM_CHARS:
            return word[: -len(ending)]
    return word


# The roles of a chat with an assistant, under the names that chat programs give them.

USER_ROLES = frozenset({"user", "human"})
ASSISTANT_ROLES = frozenset({"assistant", "ai", "bot", "model"})
TOOL_ROLES = frozenset({"tool", "function"})
INSTRUCTION_ROLES = frozenset({"system", "developer"})
NO_PERSON_ROLES = ASSISTANT_ROLES | INSTRUCTION_ROLES | TOOL_ROLES
"""Roles of turns that no person writes."""
CHAT_ROLES = USER_ROLES | NO_PERSON_ROLES


def chat_role(value: object) -> str | None:
    """Returns a value as it is where it names a role of a chat, else None: `role` is a profession elsewhere."""
    name = value.strip() if isinstance(value, str) else ""
    return name if name.casefold() in CHAT_ROLES else None
