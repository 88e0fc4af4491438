"""Whether a parsed sentence states a preference or a lasting fact of its speaker, or of somebody they name."""

import re

from palimpsest.facts.clause_tree import ClauseTree
from palimpsest.formation.cues import NO_PREFERENCE, PREFERENCE, PREFERENCE_VERBS
from palimpsest.text.parse import Parse


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPEAKERS = frozenset({"i", "we"})
_OWN = frozenset({"my", "our"})
# What is thought, said or seen now is no lasting fact of who says it.
_PASSING = _words(
    "think guess suppose know mean hope wish wonder feel see hear say tell ask agree believe remember forget thank "
    "understand imagine expect seem look sound smell doubt apologize appreciate promise bet swear admit confess "
    "want try love like enjoy hate let get find come give show notice realize recall miss talk"
)
# What somebody did once, and is so from then on.
_LASTING = _words(
    "move switch buy sign book start begin quit stop join leave marry adopt order hire swap change take hand retire "
    "apply give lend rent sell enrol enroll register subscribe graduate graduate open close replace finish found "
    "become get turn drop pass bring work live grow study teach own run"
)
_FUTURE = frozenset({"will", "'ll", "going"})
_MODALS = frozenset({"can", "could", "may", "might", "would", "should", "must", "'d"})


def states_preference(text: str, parse: Parse) -> bool:
    """Returns whether a sentence states what somebody prefers, likes or avoids."""
    if PREFERENCE.search(text):
        return True
    if NO_PREFERENCE.search(text):
        return False
    tree = ClauseTree(parse)
    return any(
        parse.lemmas[head] in PREFERENCE_VERBS and _is_present(parse, tree, head) and _subject(parse, tree, head) != ""
        for head in tree.heads
        if parse.deps[head] in ("ROOT", "conj", "ccomp")
    )


def states_fact(parse: Parse) -> bool:
    """Returns whether the main clause of a sentence states a lasting fact."""
    tree = ClauseTree(parse)
    return any(_states_fact(parse, tree, head) for head in tree.heads if _is_main(parse, head))


def _is_main(parse: Parse, head: int) -> bool:
    if parse.deps[head] == "ROOT":
        return True
    # `It is cheap, I take it daily`: the parser reads the first clause as a complement of the second.
    return parse.deps[head] in ("conj", "ccomp", "parataxis") and parse.deps[parse.heads[head]] == "ROOT"


def _states_fact(parse: Parse, tree: ClauseTree, head: int) -> bool:
    subject = _subject(parse, tree, head)
    if not subject or (subject == "speaker" and parse.lemmas[head] in _PASSING):
        return False
    below = tree.children[head]
    if parse.lemmas[head] == "do" and not any(parse.deps[c] == "dobj" for c in below):
        return False  # `I do in the mornings`: what is done is said elsewhere
    helpers = {parse.words[c] for c in below if parse.deps[c] in ("aux", "auxpass")}
    if helpers & _MODALS or any(parse.words[c] in ("if", "unless", "whether") for c in below):
        return False
    if len(tree.own(head)) < 3:
        return False
    if _is_present(parse, tree, head):
        return True
    if helpers & {"have", "has", "'ve", "'s"} or helpers & _FUTURE:
        return True
    return subject != "name" and parse.lemmas[head] in _LASTING and parse.tags[head] == "VBD"


def _is_present(parse: Parse, tree: ClauseTree, head: int) -> bool:
    """Returns whether a clause says what is so, or is done as a rule or at present."""
    helpers = [c for c in tree.children[head] if parse.deps[c] in ("aux", "auxpass")]
    first = helpers[0] if helpers else head
    if parse.words[first] in _MODALS | _FUTURE:
        return False
    return parse.tags[first] in ("VBP", "VBZ") or (parse.tags[first] == "VB" and not helpers)


def _subject(parse: Parse, tree: ClauseTree, head: int) -> str:
    """Returns whose clause it is: the `speaker`'s, of something of theirs (`own`), of a `name`, or empty."""
    subject = tree.subject(head)
    if subject < 0:
        return ""
    words = {parse.words[i] for i in parse.subtree(subject)}
    if words & _SPEAKERS:
        return "speaker"
    if words & _OWN:
        return "own"
    is_named = any(parse.pos[i] == "PROPN" and parse.is_capitalized[i] for i in parse.subtree(subject))
    return "name" if is_named and not re.fullmatch(r"(?:mr|mrs|dr)\.?", parse.words[subject]) else ""
