"""Words by which rules know what a sentence is: a save, a preference, a decision, a solution, a problem, an answer."""

import re


def _cue(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


SAVE = _cue(
    r"(?:^|[,;.] )(?:(?:please|and|also|but|ok|okay),? ){0,20}"
    r"(?:remember|remind me|keep in mind|bear in mind|make a note|take a note|(?:do not|don't) forget|note|save)"
    r"(?: down)?,?(?: that|:) (?P<saved>.+)",
)

PREFERENCE_VERBS = frozenset(
    {"prefer", "love", "like", "enjoy", "adore", "hate", "detest", "dislike", "loathe", "despise", "favour", "favor"}
)
_WANT, _AND_NOT = r"\b(?:want|like|need)s? ", ", (?:not|no) "
# The last `want` before `, not` counts: no text is read again for each of them.
PREFERENCE = _cue(
    r"\b(?:would|'d) (?:much )?(?:rather|prefer)\b(?! to know)"
    r"|\b(?:can|could)(?:not|'t| not) (?:stand|bear|abide)\b"
    r"|\b(?:do|does)(?: not|n't) (?:care for|mind)\b"
    r"|\bnot (?:a|much of a|a big) fan of\b|\b(?:am|'m|is) (?:a|a big|a huge) fan of\b"
    r"|\b(?:fond|tired|sick) of\b|\bcrazy about\b|\bpartial to\b"
    r"|\bfavou?rites?\b"
    r"|\b(?:is|are|was) (?:best|better|fine) (?:for|with) (?:me|us)\b"
    r"|\b(?:would|will|'ll) (?:not|never) (?:touch|eat|drink|wear)\b|\bwon't (?:touch|eat|drink|wear)\b"
    r"|\b(?:only|never) (?:ever )?(?:eats?|drinks?|wears?|takes?)\b|\bwill only (?:eat|drink|wear)\b"
    rf"|{_WANT}.(?:(?!{_WANT}(?!{_AND_NOT})).)*?{_AND_NOT}",
)
NO_PREFERENCE = _cue(
    r"\b(?:would|'d) (?:like|love|hate)\b|\b(?:look|looks|looked|feel|feels|felt|sound|sounds|seem|seems) like\b",
)

DECISION = _cue(
    r"\b(?:i|we)(?: have|'ve)?(?: now| finally| all| both)? (?:decided|agreed|settled|resolved|opted|chose|chosen)\b"
    r"|\blet's (?:go with|go for|use|stick with|take|do)\b"
    r"|\bwe(?:'ll| will) (?:go with|go for|stick with|use|buy|take)\b"
    r"|^(?:agreed|settled|done|deal)[,:.] \w+ \w+"
    r"|\bit is (?:settled|decided)\b",
)
NO_DECISION = _cue(r"\b(?:not|n't|never) (?:yet )?(?:decided|agreed|settled)\b")

PROBLEM = _cue(
    r"\b(?:would not|wouldn't|does not|doesn't|did not|didn't|cannot|can't|will not|won't)"
    r" (?:\w+ )?(?:start|work|open|close|run|boot|load|print|connect|turn|build|log|respond)\b"
    r"|\b(?:jam(?:s|med)?|broke|broken|leak(?:s|ed|ing)?|drip(?:s|ped)?|crash(?:es|ed)?|fail(?:s|ed)?|stuck|error"
    r"|problem|issue|hiss(?:ed)?|squeak(?:s|ed)?|rattle[sd]?|lost pressure|stopped working|kept \w+ing|blocked|froze"
    r"|dead|bug|trouble|faulty)\b",
)
SOLUTION = _cue(
    r"\b(?:fixed|solved|resolved|cured|sorted out|sorted)\b|\bdid the trick\b|\bthat worked\b"
    r"|\b(?:now|again) (?:it )?(?:works?|runs?|closes?|opens?|starts?)\b"
    r"|\b(?:works?|runs?|closes?|opens?|starts?) (?:now|again|fine)\b|\bhelped in the end\b",
)
REFERS_BACK = _cue(r"\b(?:it|its|that|this|them|their)\b|\bdid the trick\b|\bhelped in the end\b")
UNSOLVED = _cue(r"\b(?:not|n't|never) (?:been )?(?:fixed|solved|resolved|work)")

NO_ANSWER = _cue(
    r"\b(?:no idea|not sure|no clue|who knows|cannot say|can't say|(?:do not|don't|did not) know|somebody|someone"
    r"|maybe|perhaps|thought (?:you|he|she|they)|good question|find out|let you know|look (?:it|that) up|wonder)\b",
)
REQUEST = _cue(
    r"^(?:\w+[,.] )?(?:can|could|would|will) you\b(?! know| tell| find out)|^(?:shall|should|may|can) (?:i|we)\b"
    r"|\bwhat do you (?:think|say)\b|^(?:how are you|really|right|is that so)\b",
)

UNREAL = _cue(
    r"^(?:if|should|were|had|suppose|imagine|perhaps|maybe) |\bif (?:i|it|he|she|we|they) (?:had|were|was|could)\b"
    r"|\b(?:i|we) (?:think|guess|suppose|wonder|hope|wish|doubt|believe|might|may|could|would|should|expect)\b"
    r"|\b(?:joke|joking|kidding)\b",
)
FIRST_PERSON = _cue(r"\b(?:i|we|my|our|mine)\b")
PRESENT_NAME = re.compile(r"(?:^|[.;,] |\band )(?:The |Our |My )?[A-Z][\w.']+(?: [A-Z][\w.]+)* ")
OPENING_WORD = re.compile(
    r"^(?:and|but|so|also|well|anyway|oh|yes|no|ok|okay|hey|hi|hello)\b[,.!]? +(?=\S)", re.IGNORECASE
)
OPENING_PRONOUN = _cue(r"(?:he|she|it|they|this|that|these|those|there)\b")
