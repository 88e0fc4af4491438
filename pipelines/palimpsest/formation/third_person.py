"""A sentence in the first person as a statement that can be read alone: the speaker's name replaces `I`."""

from palimpsest.facts.clause_tree import ClauseTree
from palimpsest.text.parse import Parse

_PRESENT = {"am": "is", "'m": "is", "have": "has", "'ve": "has", "do": "does"}
_WILL = {"'ll": "will"}
_AFTER_WE = {"'re": "are", "'ve": "have", "'ll": "will"}
_SIBILANT = ("s", "x", "z", "ch", "sh", "o")
_SINGULAR, _PLURAL = "i", "we"


def third_person(text: str, parse: Parse, name: str) -> str:
    """Returns a sentence with `name` in place of the first person, and verbs that agree with it.

    Args:
        text: the sentence, with single spaces.
        parse: of the sentence.
        name: who says it.
    """
    tree = ClauseTree(parse)
    verbs = _verbs_of_speaker(parse, tree)
    is_plural = False
    pieces: list[str] = []
    position = 0
    for i, word in enumerate(parse.words):
        start = parse.starts[i]
        original = text[start : start + len(word)]
        new = _pronoun(word, parse.deps[i], name, is_plural)
        is_plural |= word == _PLURAL
        if new is None and i > 0 and parse.words[i - 1] in (_SINGULAR, _PLURAL):
            new = _contraction(parse, i)
        if new is None and i in verbs:
            new = _verb(word, parse.tags[i], parse.lemmas[i])
        if new is None:
            continue
        gap = text[position:start]
        if original[:1] == "'" and not gap.endswith(" "):
            gap += " "
        pieces += [gap, new]
        position = start + len(word)
    out = " ".join("".join([*pieces, text[position:]]).split())
    return out[:1].upper() + out[1:]


def _verbs_of_speaker(parse: Parse, tree: ClauseTree) -> set[int]:
    """Returns the verbs in the present whose subject is `I`, auxiliaries instead of the verb where there are some."""
    found: set[int] = set()
    for head in tree.heads:
        subject = tree.subject(head)
        if subject < 0 or parse.words[subject] != _SINGULAR or len(tree.joined(subject)) > 1:
            continue
        helpers = [c for c in tree.children[head] if parse.deps[c] in ("aux", "auxpass")]
        is_finite = parse.tags[head] in ("VBP", "VB") and not helpers
        found.update([head] if is_finite else helpers[:1])
    return found


def _pronoun(word: str, dep: str, name: str, is_plural: bool) -> str | None:
    if word == _SINGULAR:
        return name
    if word in ("me", "myself"):
        return name
    if word in ("my", "mine"):
        return f"{name}'s"
    if word == _PLURAL:
        return "they" if is_plural else f"{name} and others"
    if word == "us":
        return "them" if is_plural else f"{name} and others"
    if word == "ourselves":
        return "themselves"
    if word in ("our", "ours"):
        return "their" if is_plural else f"{name}'s"
    return None


def _contraction(parse: Parse, place: int) -> str | None:
    """Returns a contracted auxiliary in full, which a name cannot have; None for any other word."""
    word, subject = parse.words[place], parse.words[place - 1]
    if word == "'d":
        return "had" if _is_had(parse, place) else "would"
    return _AFTER_WE.get(word) if subject == _PLURAL else None


def _is_had(parse: Parse, place: int) -> bool:
    """Returns whether `'d` is `had`: before `better`, and where the next verb of its group is no infinitive.

    The tag of `'d` alone does not say: a parser calls it a modal before most adverbs and irregular participles.
    """
    head = parse.heads[place]
    later = range(place + 1, len(parse.words))
    if parse.words[place + 1 : place + 2] == ("better",):
        return True
    group = (i for i in later if i == head or (parse.heads[i] == head and parse.deps[i] in ("aux", "auxpass")))
    verb = next(group, None)
    return parse.tags[place] != "MD" if verb is None else parse.tags[verb] in ("VBN", "VBD")


def _verb(word: str, tag: str, lemma: str) -> str | None:
    if word in _WILL:
        return _WILL[word]
    if word in _PRESENT:
        return _PRESENT[word]
    if tag not in ("VBP", "VB") or word == "'d":
        return None
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(_SIBILANT) else "s")
