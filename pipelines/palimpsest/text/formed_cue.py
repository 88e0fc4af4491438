"""What kind of formed memory a question is about: `What have we decided ...?`, `What do I dislike ...?`."""

import re

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
