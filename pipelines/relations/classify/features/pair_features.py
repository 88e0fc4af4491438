"""The features of a pair of parsed texts: the input of the trained model."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from palimpsest.relations.classify.features.parse import Parse
from palimpsest.relations.classify.features.quantities import compare_quantities
from palimpsest.relations.classify.rules.reading import Verdict

_Opcode: TypeAlias = tuple[str, int, int, int, int]
"""Of difflib: operation, range of the older words, range of the newer words."""

_CUE_WORDS = """
change: now no longer instead replaced replaces replacing changed changes moved moves switched raised lowered
  cut increased reduced extended postponed became becomes become succeeded succeeds former formerly new newly
  anymore stopped quit left since again returned back renamed transferred promoted rose fell dropped grew
  upgraded latest currently today corrected revised
adds: also too besides and including additionally moreover furthermore with which who where because since so
  that both another as well plus while when for
derives: so therefore thus hence must cannot can means will would should need needs enough only anyone
  everyone nobody no every any all if then example kind
past: was were had used formerly previously once before until ago last yesterday earlier originally then
unsure: may might could would should if maybe perhaps plans planned planning wants want hopes considering
  rumour rumours says said denied wishes dreams thought proposed suggested likes whether unless almost
many: likes like loves enjoys speaks knows uses visits visited handles handled supports includes contains
  covers offers sells sold buys bought owns has have reads another one some many several other more
  monarch sovereign patron trustee shareholder stakeholder investor sponsor fellow citizen honorary godmother godfather
negates: not no n't never nobody nothing neither nor none without cannot
"""
_CUES = {
    name: frozenset(words.split()) for name, words in re.findall(r"^(\w+): (.+(?:\n .+)*)", _CUE_WORDS, re.MULTILINE)
}
_DIGIT = re.compile(r"\d")
_FUNCTION_TAGS = ("ADP", "AUX", "PART", "SCONJ", "DET")
_MAX_DIFF_WORDS = 120


def pair_features(older: Parse, newer: Parse, order: int | None, same_day: bool, verdict: Verdict) -> dict[str, float]:
    """Returns features by name; the same names in the same order for every pair.

    Args:
        older: the older text.
        newer: the newer text.
        order: 1 where the newer is known to be later, 0 for the same time, -1 for earlier, None where a date lacks.
        same_day: both were observed, or begin to be valid, on one day.
        verdict: of the rules.
    """
    f: dict[str, float] = {}
    _add_overlap(f, older, newer)
    _add_difference(f, older, newer)
    _add_syntax(f, older, newer)
    _add_lengths(f, older, newer)
    _add_derivation(f, older, newer)
    _add_frame(f, older, newer)
    f |= compare_quantities(" ".join(older.words), " ".join(newer.words))
    f["order_known"] = float(order is not None)
    f["later"] = 0.0 if order is None else float(order)
    f["same_day"] = float(same_day)
    for label in ("UPDATE", "EXTEND", "DERIVE"):
        f[f"rule_{label.lower()}"] = verdict.confidence if verdict.label == label else 0.0
    f["rule_same"] = float(verdict.evidence.get("rule") in ("same value", "same text"))
    f["rule_abstains"] = float(verdict.evidence.get("rule") == "abstain")
    return f


def _share(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a) if a else 0.0


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def _add_overlap(f: dict[str, float], o: Parse, n: Parse) -> None:
    f["words_older_in_newer"] = _share(o.bag, n.bag)
    f["words_newer_in_older"] = _share(n.bag, o.bag)
    f["content_older_in_newer"] = _share(o.content, n.content)
    f["content_newer_in_older"] = _share(n.content, o.content)
    f["content_jaccard"] = _jaccard(o.content, n.content)
    f["content_shared"] = float(len(o.content & n.content))
    f["content_only_older"] = float(len(o.content - n.content))
    f["content_only_newer"] = float(len(n.content - o.content))
    prefixes_o, prefixes_n = _prefixes(o.content), _prefixes(n.content)
    f["rough_older_in_newer"] = _share(prefixes_o, prefixes_n)
    f["rough_newer_in_older"] = _share(prefixes_n, prefixes_o)
    f["numbers_lost"] = float(len(o.numbers - n.numbers))
    f["numbers_gained"] = float(len(n.numbers - o.numbers))
    f["numbers_shared"] = float(len(o.numbers & n.numbers))
    f["names_lost"] = float(len(o.names - n.names))
    f["names_gained"] = float(len(n.names - o.bag))
    f["names_shared"] = float(len(o.names & n.names))
    f["names_newer_in_older"] = _share(n.names, o.bag) if n.names else -1.0
    f["numbers_newer_in_older"] = _share(n.numbers, o.bag) if n.numbers else -1.0


def _prefixes(lemmas: frozenset[str]) -> frozenset[str]:
    return frozenset(w[:5] for w in lemmas)


def _add_difference(f: dict[str, float], o: Parse, n: Parse) -> None:
    blocks = SequenceMatcher(None, o.words[:_MAX_DIFF_WORDS], n.words[:_MAX_DIFF_WORDS], autojunk=False).get_opcodes()
    replaced = [b for b in blocks if b[0] == "replace"]
    inserted = [b for b in blocks if b[0] == "insert"]
    deleted = [b for b in blocks if b[0] == "delete"]
    same = sum(b[2] - b[1] for b in blocks if b[0] == "equal")
    f["diff_same"] = 2.0 * same / max(1, len(o.words) + len(n.words))
    f["diff_replaced"], f["diff_inserted"], f["diff_deleted"] = map(float, (len(replaced), len(inserted), len(deleted)))
    f["diff_replaced_older"] = float(sum(b[2] - b[1] for b in replaced))
    f["diff_replaced_newer"] = float(sum(b[4] - b[3] for b in replaced))
    f["diff_inserted_words"] = float(sum(b[4] - b[3] for b in inserted))
    f["diff_deleted_words"] = float(sum(b[2] - b[1] for b in deleted))
    first = next((b for b in blocks if b[0] != "equal"), None)
    last = next((b for b in reversed(blocks) if b[0] != "equal"), None)
    f["prefix"] = first[1] / max(1, len(o.words)) if first else 1.0
    f["suffix"] = (len(o.words) - last[2]) / max(1, len(o.words)) if last else 1.0
    f["replaced_number"] = float(any(_has_number(o, b[1], b[2]) and _has_number(n, b[3], b[4]) for b in replaced))
    f["replaced_name"] = float(any(_has_name(o, b[1], b[2]) and _has_name(n, b[3], b[4]) for b in replaced))
    f["replaced_common"] = float(
        any(
            not _has_name(o, b[1], b[2])
            and not _has_number(o, b[1], b[2])
            and any(o.is_content(i) for i in range(b[1], b[2]))
            and any(n.is_content(i) for i in range(b[3], b[4]))
            for b in replaced
        )
    )
    f["replaced_subject"] = float(any(_has_subject(o, b[1], b[2]) for b in replaced))
    f["replaced_same_pos"] = float(
        sum(_tags(o, b[1], b[2]) == _tags(n, b[3], b[4]) for b in replaced) / max(1, len(replaced))
    )
    fresh = frozenset(n.words[i] for b in blocks if b[0] in ("replace", "insert") for i in range(b[3], b[4]))
    gone = frozenset(o.words[i] for b in blocks if b[0] in ("replace", "delete") for i in range(b[1], b[2]))
    for cue, words in _CUES.items():
        f[f"{cue}_inserted"] = float(len(fresh & words))
        f[f"{cue}_gone"] = float(len(gone & words))
    for cue in ("past", "unsure", "many", "negates"):
        f[f"{cue}_older"] = float(len(_bag_without_month(o) & _CUES[cue]))
        f[f"{cue}_newer"] = float(len(_bag_without_month(n) & _CUES[cue]))
    f["multivalued_older"], f["multivalued_newer"] = float(_has_multivalued_word(o)), float(_has_multivalued_word(n))
    differing = sum(b[0] != "equal" for b in blocks)
    f["number_changed"] = float(differing == 1 and _only_numbers_differ(o, n, replaced))


def _has_multivalued_word(p: Parse) -> bool:
    """Returns whether a word here means several at a time: in `has swapped` and `one runway` none does."""
    return any(w in _CUES["many"] and t not in ("AUX", "NUM") for w, t in zip(p.words, p.pos, strict=True))


def _only_numbers_differ(o: Parse, n: Parse, replaced: Sequence[_Opcode]) -> bool:
    for _, a, b, c, d in replaced:
        if not all(t == "NUM" for t in (*o.pos[a:b], *n.pos[c:d])):
            return False
        # `eleven` and `11` are one number, so a word and digits are not compared.
        if any(x[0].isdigit() for x in o.words[a:b]) != any(x[0].isdigit() for x in n.words[c:d]):
            return False
    return bool(replaced)


def _bag_without_month(p: Parse) -> frozenset[str]:
    """The words, `may` only where it is the verb: `since 4 May` expresses no doubt."""
    verb = any(w == "may" and t == "AUX" for w, t in zip(p.words, p.pos, strict=True))
    return p.bag if verb else p.bag - {"may"}


def _tags(p: Parse, a: int, b: int) -> frozenset[str]:
    return frozenset(p.pos[a:b]) - {"DET", "ADP", "PUNCT", "PART"}


def _has_number(p: Parse, a: int, b: int) -> bool:
    return any(p.pos[i] == "NUM" or _DIGIT.search(p.words[i]) for i in range(a, b))


def _has_name(p: Parse, a: int, b: int) -> bool:
    return any(p.pos[i] == "PROPN" for i in range(a, b))


def _has_subject(p: Parse, a: int, b: int) -> bool:
    return any(p.deps[i] in ("nsubj", "nsubjpass") for i in range(a, b))


def _add_syntax(f: dict[str, float], o: Parse, n: Parse) -> None:
    root_o = o.lemmas[o.root] if o.root >= 0 else ""
    root_n = n.lemmas[n.root] if n.root >= 0 else ""
    f["same_subject"] = _jaccard(o.subject, n.subject)
    f["another_of_its_kind"] = float(_another_of_its_kind(o, n))
    f["same_subject_head"] = float(o.subject_head == n.subject_head != "")
    f["same_root"] = float(root_o == root_n)
    f["object_jaccard"] = _jaccard(o.object, n.object)
    f["object_older_in_newer"] = _share(o.object, n.object)
    f["object_newer_in_older"] = _share(n.object, o.object)
    f["subject_newer_in_object_older"] = _share(n.subject, o.object)
    f["subject_older_in_object_newer"] = _share(o.subject, n.object)
    f["subject_newer_in_older"] = _share(n.subject, o.content)
    f["subject_older_in_newer"] = _share(o.subject, n.content)
    f["root_newer_in_older"] = float(root_n in o.content)
    f["copula_older"], f["copula_newer"] = float(root_o == "be"), float(root_n == "be")
    f["negated_differs"] = float(("neg" in o.deps) != ("neg" in n.deps))
    f["past_tense_older"] = float(_is_past_tense(o))
    f["past_tense_newer"] = float(_is_past_tense(n))
    f["pronoun_newer"] = float(n.subject_head in ("it", "he", "she", "they", "this", "that"))
    f["first_person"] = float(n.has("i", "my", "me", "we", "our") == o.has("i", "my", "me", "we", "our"))


def _another_of_its_kind(o: Parse, n: Parse) -> bool:
    """Returns whether both are about one kind of thing, each distinguished by a word that the other text lacks."""
    if not o.subject_head or o.subject_head != n.subject_head:
        return False
    return bool(o.subject - n.content - {o.subject_head}) and bool(n.subject - o.content - {n.subject_head})


def _is_past_tense(p: Parse) -> bool:
    if p.root < 0:
        return False
    if p.tags[p.root] == "VBD":
        return True
    return any(
        h == p.root and d in ("aux", "auxpass") and t == "VBD" for h, d, t in zip(p.heads, p.deps, p.tags, strict=True)
    )


def _add_lengths(f: dict[str, float], o: Parse, n: Parse) -> None:
    f["length_older"], f["length_newer"] = float(len(o.words)), float(len(n.words))
    f["length_ratio"] = len(n.words) / max(1, len(o.words))
    f["sentences_older"], f["sentences_newer"] = float(o.sentences), float(n.sentences)


_GENERAL = frozenset({"kind", "type", "part", "example", "form", "property", "similar", "means", "mean", "synonym"})


def _add_derivation(f: dict[str, float], o: Parse, n: Parse) -> None:
    """Which words of a premise a conclusion repeats: one of its sides is kept, the other replaced."""
    f["subject_older_anywhere"] = _share(o.subject, n.content)
    f["predicate_older_anywhere"] = _share(o.predicate, n.content)
    f["object_older_anywhere"] = _share(o.object, n.content)
    f["object_older_in_subject_newer"] = _share(o.object, n.subject)
    f["one_side_kept"] = abs(f["subject_older_anywhere"] - f["object_older_anywhere"])
    f["sides_kept"] = float((f["subject_older_anywhere"] > 0) + (f["object_older_anywhere"] > 0))
    f["subject_head_older_in_newer"] = float(o.subject_head in n.content)
    f["root_older_in_newer"] = float(o.root >= 0 and o.lemmas[o.root] in n.content)
    f["general_older"] = float(len(o.bag & _GENERAL))
    f["general_newer"] = float(len(n.bag & _GENERAL))
    f["if_older"], f["if_newer"] = float(o.has("if", "when")), float(n.has("if", "when"))
    f["proper_older"] = float(len(o.names))
    f["slash"] = float("/" in o.words) + float("/" in n.words)
    rare = [w for w in o.content if len(w) > 6]
    f["long_older_in_newer"] = sum(w in n.content for w in rare) / len(rare) if rare else -1.0
    rare = [w for w in n.content if len(w) > 6]
    f["long_newer_in_older"] = sum(w in o.content for w in rare) / len(rare) if rare else -1.0


def _add_frame(f: dict[str, float], o: Parse, n: Parse) -> None:
    """The values between the words with which both texts begin and end, the frame."""
    a = 0
    while a < min(len(o.words), len(n.words)) and o.words[a] == n.words[a]:
        a += 1
    b = 0
    while b < min(len(o.words), len(n.words)) - a and o.words[-1 - b] == n.words[-1 - b]:
        b += 1
    old, new = o.words[a : len(o.words) - b], n.words[a : len(n.words) - b]
    f["frame_prefix"] = float(a)
    f["frame_suffix"] = float(b)
    f["frame_verb"] = float((o.root >= 0 and o.root < a) or o.root >= len(o.words) - b)
    f["value_older_words"], f["value_newer_words"] = float(len(old)), float(len(new))
    f["value_jaccard"] = _jaccard(frozenset(old), frozenset(new))
    f["value_within"] = float(bool(old and new) and (set(old) <= set(new) or set(new) <= set(old)))
    grams = [_trigrams(" ".join(x)) for x in (old, new)]
    f["value_trigrams"] = _jaccard(*grams)
    f["value_trigrams_newer"] = _share(grams[1], grams[0])
    f["value_pos_same"] = float(_tags(o, a, len(o.words) - b) == _tags(n, a, len(n.words) - b))
    f["value_last_same"] = float(bool(old and new) and old[-1] == new[-1])
    f["value_first_same"] = float(bool(old and new) and old[0] == new[0])
    f["value_capital_older"] = _capitalized_share(o, a, len(o.words) - b)
    f["value_capital_newer"] = _capitalized_share(n, a, len(n.words) - b)


def _capitalized_share(p: Parse, a: int, b: int) -> float:
    return sum(p.is_capitalized[a:b]) / (b - a) if b > a else -1.0


def _trigrams(text: str) -> frozenset[str]:
    return frozenset(text[i : i + 3] for i in range(len(text) - 2))


def pair_words(o: Parse, n: Parse) -> frozenset[str]:
    """Returns the lemmas that a pair shares, loses and gains, each marked with `=`, `-` or `+`."""
    old, new = _content_and_function_lemmas(o), _content_and_function_lemmas(n)
    return frozenset({"=" + w for w in old & new} | {"-" + w for w in old - new} | {"+" + w for w in new - old})


def _content_and_function_lemmas(p: Parse) -> frozenset[str]:
    return p.content | {w for w, tag in zip(p.lemmas, p.pos, strict=True) if tag in _FUNCTION_TAGS}
