"""What kind of answer a question asks for, by its words: what an assistant wrote, a kind of memory, a list, why."""

import re

from palimpsest.text.terms import name_words

_VERB = (
    "suggest|recommend|advise|propose|tell|say|mention|explain|give|list|show|write|answer|describe|point out|"
    "lay out|set out|outline|provide|offer|warn|summari[sz]e|draft|promise"
)
_PAST = (
    "suggested|recommended|advised|proposed|told|said|mentioned|explained|gave|given|listed|showed|shown|wrote|written|"
    "answered|described|pointed out|laid out|set out|outlined|provided|offered|warned|summari[sz]ed|drafted|promised"
)
_NOUN = "answer|advice|suggestion|recommendation|reply|replies|response|explanation|summary|tip|list|draft|plan|example"
_ASSISTANT = r"(?:you|(?:the |my )?(?:ai )?(?:assistant|chatbot|bot|chatgpt|claude|gemini|copilot)|the ai)"
_BETWEEN = r"(?:\w+ly |just |also |once |already |first |last )?"
_CUE = re.compile(
    rf"\b(?:did|didn't) {_ASSISTANT} {_BETWEEN}(?:{_VERB})\b"
    rf"|\b(?:have|has|had) {_ASSISTANT} {_BETWEEN}(?:{_PAST})\b"
    rf"|\b{_ASSISTANT}(?:'ve|'d| have| has| had)? {_BETWEEN}(?:{_PAST})\b"
    rf"|\b(?:your|assistant's|bot's|chatgpt's|claude's) (?:earlier|previous|last|first|original|old) (?:{_NOUN})s?\b"
    rf"|\b(?:was|were|remember|recall|remind me of|repeat|quote) (?:your|(?:the )?assistant's) (?:{_NOUN})s?\b"
)


def asks_for_answers(question: str) -> bool:
    """Returns whether a question is about what the assistant wrote before.

    One that asks for new advice (`what would you suggest`) is not: it is answered by what the user stated.
    """
    return _CUE.search(question.lower().replace("\u2019", "'")) is not None


# What kind of formed memory a question is about: `What have we decided ...?`, `What do I dislike ...?`.

_CUES = {
    "preference": re.compile(
        r"\b(?:prefer\w*|(?<!look )(?<!looks )(?<!sound )likes?|dislikes?"
        r"|loves?|hates?|enjoys?|favou?rites?|mind|rather|avoids?|loathes?|tastes?)\b"
        r"|\b(?:can'?t|cannot|can not) (?:\w+ )?(?:stand|bear)\b|\b(?:want|wants)\b.{0,40}\bto be\b"
    ),
    "decision": re.compile(
        r"\b(?:decid\w+|decisions?|agreed?|settled?|chosen|chose|choose|choice|opted?)\b"
        r"|\b(?:pick|picked|go|went|going) (?:for|with)\b"
    ),
    "solution": re.compile(
        r"\b(?:fix\w*|solve[ds]?|solutions?|cure[ds]?|remed\w+|repair\w*|helped|(?:get|got) rid of|sorted|trick)\b"
        r"|\b(?:get|got|made|stopped?) .{1,60}\b(?:work|working|run|running|going|start|starting|again)\b"
    ),
    "gap": re.compile(
        r"\bstill (?:open|unanswered|unclear|unknown|to be answered)\b"
        r"|\b(?:open|unanswered) (?:question|point|issue)s?\b"
        r"|\b(?:never|not|nobody|no one) (?:got an |get an |been )?answer(?:ed)?\b|\bwonder(?:ed|ing)\b"
        r"|\bfind out\b|\bdidn'?t (?:i|we) know\b|\bunresolved\b"
    ),
}


def requested_kinds(question: str) -> frozenset[str]:
    """Returns the kinds of formed memories that a question is about, by its words; mostly none."""
    text = question.lower().replace("\u2019", "'")
    return frozenset(kind for kind, cue in _CUES.items() if cue.search(text))


_LISTING = re.compile(
    r"^\W*(?:(?:which|what)(?: (?:other|of|all|the|our|my|are|kinds?))*|who are|list|name|show)"
    r"(?: (?:me|us|all|the|our|my|of|are))* (?P<rest>.+)",
    re.IGNORECASE,
)

# What a question asks to list: `Which customers do we have?`, `List all football clubs`.

_MAX_BEFORE = 2  # words before the noun: `notable`, `football`
_FUNCTION_WORDS = """
is are was were be been do does did has have had can could will would shall should may might must a an in on at to for
from by with and or when where why how that this these those
"""
_NO_ADJECTIVES = frozenset(_FUNCTION_WORDS.split())


def listed_nouns(question: str) -> list[str]:
    """Returns what a question may ask to list, as `name_words` writes it, the longest phrase first; often nothing.

    Only plurals: `Which book ...` asks for one.
    """
    found = _LISTING.match(" ".join(question.split()))
    if found is None:
        return []
    words = name_words(found["rest"]).split()
    phrases = []
    for end in range(1, min(len(words), _MAX_BEFORE + 1) + 1):
        if words[end - 1] in _NO_ADJECTIVES:
            break
        if words[end - 1].endswith("s"):
            phrases += [" ".join(words[start:end]) for start in range(end)]
    return sorted(dict.fromkeys(phrases), key=lambda phrase: (-len(phrase.split()), phrase))


_WHY = re.compile(
    r"\bwhy\b|\bhow come\b|\bwhat (?:is|was|were|are) the (?:reason|cause|ground)s?\b|\bfor what reason\b"
    r"|\bwhat (?:caused|causes|led to)\b"
)


# Whether a question asks for reasons: what a conclusion follows from.


def asks_for_reasons(question: str) -> bool:
    """Returns whether a question asks why something is so."""
    return _WHY.search(question.lower()) is not None
