"""Whether a question asks for what the assistant of a chat wrote: "What did you recommend ...?"."""

import re

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
