"""DERIVE relations from a memory to all its premises, added to the labels of candidate pairs.

A label is of one pair; a conclusion often follows from two memories together, of which neither alone is enough. Only
a NONE of the offline labeler is replaced: an UPDATE, a person's decision and the answer of a language model stay.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.ids import SCOPE, JsonObject, content_id
from palimpsest.memories.recency import recency_columns
from palimpsest.relations.labelers.label_pairs import count_labels, pair_keys
from palimpsest.relations.labelers.low_trust import to_json
from palimpsest.relations.premise_statements import (
    MIN_WEIGHT,
    Amount,
    Computed,
    ScopeStatements,
    Statement,
    amounts,
    computations,
    statement_terms,
)
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import completed, conform
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import fold

# Which sentence of a memory states a conclusion, by its words: `so`, `therefore`, `that leaves`.

MAX_CHARS = 160
"""A longer memory states its own premises, and what one of its sentences follows from is not known."""
_NOT_CONCLUDING = r"(?!(?:that|far|long|much|many|do|did|does|what|how|why|where|when|who|which|please|the question)\b)"
_SUBJECT = r"(?:the|a|an|it|they|he|she|we|i|you|this|there|those|no|all|every|only|[\w.-]*\d[\w.-]*)\b"
_REFERRING = re.compile(
    rf"^(?:so,? (?:{_SUBJECT}|on |at |in |for |from |by )"
    rf"|(?:then|thus|hence|therefore|consequently|accordingly)\b,? {_NOT_CONCLUDING})"
    r"|^(?:it follows|in total|in all|altogether)\b"
    r"|^(?:that|this|which) (?:makes|leaves|means|brings|comes to)\b(?! (?:a lot|so much|sense|everything|me))"
    r"|\b(?:therefore|thus|hence|consequently)\b|\bit follows that\b"
    r"|\bthat (?:makes|leaves|is|is about|would be)\b(?= [^a-z]*\d)"
)
_REASONED = re.compile(rf", (?:and )?so {_SUBJECT}|^(?:since|because) [^\W\d][^,]+,")
_COMPUTED = re.compile(
    r"\b(?:makes?|leaves?|adds? up to|comes? to|amounts? to|totals?|would be|remains?)\b"
    r"|\bthat(?: is|'s|’s)\b"  # noqa: RUF001 (the apostrophe that people type)
    r"|\b(?:better|worse|below|above|under|over|larger|smaller|longer|shorter|earlier|later|more|less|fewer|cheaper)\b"
)


@dataclass(frozen=True)
class Conclusion:
    """A sentence that states what follows from others.

    Attributes:
        start, end: its span in the memory.
        text: the sentence.
        is_marked: it is marked as a conclusion; else only an amount may show that it is one.
        has_reason: it is marked and states a reason itself, as `... , so ...` does.
        is_question: it ends with a question mark.
    """

    start: int
    end: int
    text: str
    is_marked: bool
    has_reason: bool
    is_question: bool


def find_conclusion(text: str) -> Conclusion | None:
    """Returns the first sentence that is marked as a conclusion, else the first whose amount may be computed."""
    if len(text) > MAX_CHARS:
        return None
    spans = memory_sentence_spans(text)
    computed = None
    for start, end in spans:
        sentence = " ".join(fold(text[start:end]).split())
        is_question = sentence.rstrip("\"')").endswith("?")
        has_reason = bool(_REASONED.search(sentence))
        if has_reason or _REFERRING.search(sentence):
            return Conclusion(start, end, text[start:end], True, has_reason, is_question)
        if computed is None and _COMPUTED.search(sentence):
            computed = Conclusion(start, end, text[start:end], False, False, is_question)
    return computed


NEXT_TO = 3
"""The distance of a near premise where the other one is anywhere in the scope."""

# Premises whose amounts give an amount of a conclusion: 180,000 and 64,000 for `That leaves 116,000 euros`.
#
# Small numbers follow from many pairs of others by chance. The fewer digits an amount has, the more must link it to the
# premises: the conclusion repeats an operand, or the premise is near it.

MAX_AMOUNTS = 4
"""A memory with more amounts is a table, of which only amounts that the conclusion repeats are used."""
MIN_COUNT = 10
"""Smaller counts follow from anything."""
_CERTAIN_DIGITS = 3


class ComputedPremises(NamedTuple):
    """Rows of one or two premises, and how their amounts give the conclusion's; the highest score is the best."""

    score: float
    rows: tuple[int, ...]
    computed: Computed


class _Operands(NamedTuple):
    """How the operands of a computation are linked to the conclusion.

    Attributes:
        stated: how many of them the conclusion repeats.
        free: how many it does not repeat that are in no near statement.
        nearest: the distance of the nearest premise, None where none is near.
        shared: the weight of the terms that the conclusion shares with the premises of those.
    """

    stated: int
    free: int
    nearest: int | None
    shared: float


def computed_premises(scope: ScopeStatements, i: int, conclusion: Conclusion) -> ComputedPremises | None:
    """Returns the best premises of row i whose amounts give one that its conclusion states, None where there are none.

    Args:
        scope: the statements.
        i: the row of the conclusion.
        conclusion: the sentence of row i.
    """
    stated = amounts(conclusion.text)
    if not stated:
        return None
    near = scope.near(i)
    near_terms = frozenset[str]().union(*(scope.terms(j) for j in near if scope.amounts(j)))
    related = (*scope.related(i, scope.terms(i)), *scope.related(i, near_terms))
    operands = {j: _usable_amounts(scope.amounts(j), stated) for j in sorted({*near, *related})}
    rows = [j for j, found in operands.items() if found]
    found = [
        premises
        for a, b in combinations_with_replacement(rows, 2)
        if a in near or b in near or (stated & operands[a] and stated & operands[b])
        for premises in _premises(scope, i, conclusion, near, (a, b), operands, stated)
    ]
    return max(found, key=lambda p: (p.score, [-j for j in p.rows], p.computed), default=None)


def _usable_amounts(found: frozenset[Amount], stated: frozenset[Amount]) -> frozenset[Amount]:
    if len(found) <= MAX_AMOUNTS:
        return found
    return frozenset(a for a in found & stated if a.digits >= _CERTAIN_DIGITS)


def _premises(
    scope: ScopeStatements,
    i: int,
    conclusion: Conclusion,
    near: dict[int, int],
    rows: tuple[int, int],
    operands: dict[int, frozenset[Amount]],
    stated: frozenset[Amount],
) -> Iterator[ComputedPremises]:
    """Yields the accepted computations from an amount of each of two rows, which may be the same."""
    a, b = rows
    shared = tuple(scope.weight(scope.terms(j) & scope.terms(i)) for j in rows)
    middle = scope.weight(scope.terms(a) & scope.terms(b)) if a != b else 0.0
    if not all(j in near or s >= MIN_WEIGHT or middle >= MIN_WEIGHT for j, s in zip(rows, shared, strict=True)):
        return
    distances = [near[j] for j in sorted(set(rows)) if j in near]
    for computed in computations(stated, operands[a], operands[b]):
        pair = (computed.left, computed.right)
        is_in_order = computed.left in operands[a] and computed.right in operands[b]
        sources = zip(pair, *(x if is_in_order else x[::-1] for x in (rows, shared)), strict=True)
        free = [weight for amount, j, weight in sources if amount not in stated and j not in near]
        nearest = min(distances, default=None)
        links = _Operands(sum(x in stated for x in pair), len(free), nearest, min(free, default=0.0))
        if _is_accepted(computed, links, conclusion.is_marked):
            nearness = sum(1 - d / 10 for d in distances)
            score = computed.result.digits - len(free) + nearness + sum(shared) + middle / 2
            yield ComputedPremises(round(score, 6), tuple(dict.fromkeys(rows)), computed)


def _is_accepted(computed: Computed, links: _Operands, is_marked: bool) -> bool:
    result, digits = computed.result, computed.result.digits
    if result.kind == "number" and result.value < MIN_COUNT:
        return False
    if links.free == 0:
        if digits >= _CERTAIN_DIGITS or (
            digits == 2 and (is_marked or links.stated == 2 or computed.operation in "+-")
        ):
            return True
        return is_marked and links.nearest is not None and (result.kind != "number" or links.stated > 0)
    if links.free > 1 or links.nearest is None or links.nearest > NEXT_TO:
        return False
    is_exact_difference = computed.operation == "-" and min(computed.left.digits, computed.right.digits) >= 2
    return digits >= _CERTAIN_DIGITS or (is_exact_difference and links.shared >= MIN_WEIGHT)


"""The distance up to which one of the premises must be."""

# Premises that together supply the terms of a conclusion, linked by a term that it lacks, as in a syllogism.
#
# `It still speaks to Punt.` and `Herons built before 2022 need firmware 4.1 to speak to Ferry.` share `speak`; together
# they support `So it needs firmware 4.1.`

MIN_COVERED = 0.25
"""Of the weight of the conclusion's terms, in both premises together."""
MIN_MIDDLE = 0.5
"""The weight of the terms that both premises share and the conclusion lacks."""
MIN_OWN = 1.0
"""Instead of it, the weight of the terms that each premise alone supplies."""
_MAX_MIDDLE = 1.5  # more shared terms say that the premises are about the same, not that they are linked
_FROM_PREVIOUS = 10


class CoveredPremises(NamedTuple):
    """Rows of two premises, the terms of the conclusion that they supply, and those that link them."""

    score: float
    rows: tuple[int, int]
    terms: tuple[str, ...]
    middle: tuple[str, ...]


def covered_premises(scope: ScopeStatements, i: int, conclusion: Conclusion) -> CoveredPremises | None:
    """Returns the best two premises that supply the terms of row i's conclusion, None where there are none.

    Args:
        scope: the statements.
        i: the row of the conclusion.
        conclusion: the sentence of row i.
    """
    terms = statement_terms(conclusion.text)
    if not conclusion.is_marked or conclusion.is_question or not terms:
        return None
    near = {j: d for j, d in scope.near(i).items() if d <= NEXT_TO}
    previous = [j for j, d in near.items() if d == 1]
    linked = (r for j in previous for r in scope.related(i, scope.terms(j))[:_FROM_PREVIOUS])
    rows = [j for j in sorted({*near, *linked, *scope.related(i, terms)}) if _is_sentence(scope.rows[j].text)]
    pairs = ((a, b) for a, b in combinations(rows, 2) if a in near or b in near)
    found = [p for pair in pairs if (p := _covering_premises(scope, pair, terms, near, conclusion.has_reason))]
    return max(found, key=lambda p: (p.score, [-j for j in p.rows]), default=None)


def _is_sentence(text: str) -> bool:
    return len(text) <= MAX_CHARS and not text.lstrip().startswith("|")


def _covering_premises(
    scope: ScopeStatements, rows: tuple[int, int], terms: frozenset[str], near: dict[int, int], has_reason: bool
) -> CoveredPremises | None:
    a, b = (scope.terms(j) for j in rows)
    middle = scope.weight(a & b - terms)
    covered = scope.weight((a | b) & terms) / scope.weight(terms)
    own = min(scope.weight(a & terms - b), scope.weight(b & terms - a))
    # A sentence that states its own reason needs more.
    if covered < MIN_COVERED or (middle < (MIN_OWN if has_reason else MIN_MIDDLE) and own < MIN_OWN):
        return None
    supplies = [scope.weight(scope.terms(j) & terms) >= MIN_WEIGHT for j in rows]
    # `So` and `Then` refer to the statement right before, which need not repeat a word.
    is_linked = all(s or near.get(j) == 1 for s, j in zip(supplies, rows, strict=True)) and any(supplies)
    if not is_linked or (own < MIN_WEIGHT and all(near.get(j) != 1 for j in rows)):
        return None
    score = covered + 0.4 * min(middle, _MAX_MIDDLE) + sum(0.5 / near[j] for j in rows if j in near)
    return CoveredPremises(round(score, 6), rows, tuple(sorted((a | b) & terms)), tuple(sorted(a & b - terms)))


# The premises of the conclusions of one scope: by computation where amounts give it, else by terms.

COMPUTED_CONFIDENCE = 0.9
COVERED_CONFIDENCE = 0.6
"""Below the confidence at which `palimpsest review` lists a DERIVE: shared terms do not prove that it follows."""


class Premises(NamedTuple):
    """A memory that states a conclusion, and the older memories it follows from.

    Attributes:
        memory_id: the memory with the conclusion.
        premise_ids: the premises, one or two.
        confidence: in [0, 1].
        evidence: the span of the conclusion, and the computation or the terms.
    """

    memory_id: str
    premise_ids: tuple[str, ...]
    confidence: float
    evidence: JsonObject


def find_premises(scope: ScopeStatements) -> Iterator[Premises]:
    """Yields the premises of each live statement that states a conclusion, where they are found."""
    for i, row in enumerate(scope.rows):
        conclusion = find_conclusion(row.text) if row.is_live else None
        found = None if conclusion is None else _find(scope, i, conclusion)
        if found is not None:
            yield found


def _find(scope: ScopeStatements, i: int, conclusion: Conclusion) -> Premises | None:
    span: JsonObject = {"newer": [conclusion.start, conclusion.end]}
    if (computed := computed_premises(scope, i, conclusion)) is not None:
        reason: JsonObject = {"rule": "computed premises", "computed": str(computed.computed)}
        return _result(scope, i, computed.rows, COMPUTED_CONFIDENCE, span | reason)
    if (covered := covered_premises(scope, i, conclusion)) is not None:
        reason = {"rule": "covered premises", "terms": list(covered.terms), "shared": list(covered.middle)}
        return _result(scope, i, covered.rows, COVERED_CONFIDENCE, span | reason)
    return None


def _result(scope: ScopeStatements, i: int, rows: tuple[int, ...], confidence: float, evidence: JsonObject) -> Premises:
    return Premises(scope.rows[i].memory_id, tuple(scope.rows[j].memory_id for j in rows), confidence, evidence)


# Scopes whose premises need not be searched again: nothing that the search reads differs from an earlier build.

_SEEDS = (1, 2)  # two sums of 64-bit hashes: that both are equal by chance never happens


@dataclass(frozen=True)
class PremiseInputs:
    """What premises are searched in.

    Attributes:
        relations: as labelers and people gave them, without those to premises.
        memories: the memories table.
        documents: the documents table, all versions.
    """

    relations: pl.DataFrame
    memories: pl.DataFrame
    documents: pl.DataFrame


def unchanged_scopes(now: PremiseInputs, earlier: PremiseInputs) -> pl.DataFrame:
    """Returns the scopes whose memories, order and relations are the same in both."""
    sums = _scope_sums(now)
    return sums.join(_scope_sums(earlier), on=sums.columns, how="inner", nulls_equal=True).select(SCOPE)


def _scope_sums(inputs: PremiseInputs) -> pl.DataFrame:
    memories = inputs.memories
    state = recency_columns(memories, inputs.documents).with_columns(
        memories["text"],
        line=pl.col("line") - pl.col("line").min().over(SCOPE),  # counted within the scope: others come and go
    )
    relations = completed("relations", inputs.relations)
    return _row_sums(state, "memories").join(_row_sums(relations, "relations"), on=SCOPE, how="left")


def _row_sums(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Returns the number of rows of each scope and sums of their hashes, which do not depend on order."""
    row = pl.struct(sorted(set(rows.columns) - set(SCOPE)))
    sums = [row.hash(seed).sum().alias(f"{name}_{seed}") for seed in _SEEDS]
    return rows.group_by(SCOPE).agg(pl.len().alias(f"{name}_rows"), *sums)


PREMISES = "premises"
"""The labeler of the relations that are added, and the field of their evidence with the ids of the other premises."""
DERIVE = "DERIVE"
_ORDER = ("at", "line", "seq", "ordinal", "memory_id")
_LABELED = ("label", "confidence", "labeler", "evidence")
_OFFLINE = "offline"


@dataclass(frozen=True)
class _Relation:
    """Label, conflict, confidence, labeler and evidence of a row of relations."""

    label: str
    conflict: str | None
    confidence: float | None
    labeler: str
    evidence: str
    consequence: str | None = None


def add_premises(inputs: PremiseInputs, decisions: Decisions, earlier: PremiseInputs | None = None) -> pl.DataFrame:
    """Returns relations with those to premises that are found, sorted by relation_id.

    Each DERIVE of a memory with several names the others: `premises` in its evidence. A relation that replaces a label
    keeps it in `labeled`; `without_premises` restores it.

    Args:
        inputs: relations as `label_pairs` made them, and the tables they are of.
        decisions: pairs that people decided are left as they are.
        earlier: the relations that this function returned from the same code and decisions, and the tables they are
            of: scopes where nothing differs are not searched again.
    """
    if earlier is None:
        return _add_found(inputs, decisions)
    before = replace(earlier, relations=without_premises(earlier.relations))
    same = unchanged_scopes(inputs, before)
    kept = completed("relations", earlier.relations).join(same, on=SCOPE, how="semi", nulls_equal=True)
    rest = {
        name: getattr(inputs, name).join(same, on=SCOPE, how="anti", nulls_equal=True)
        for name in ("relations", "memories", "documents")
    }
    return pl.concat([conform("relations", kept), _add_found(PremiseInputs(**rest), decisions)]).sort("relation_id")


def _add_found(inputs: PremiseInputs, decisions: Decisions) -> pl.DataFrame:
    relations, memories = inputs.relations, inputs.memories
    decided = {(d.newer_id, d.older_id) for d in decisions.relations}
    rows = {(n, o): _Relation(*rest) for n, o, *rest in relations.select(*_COLUMNS).iter_rows()}
    derived: dict[tuple[str, str], _Relation] = {}
    for found in _search(relations, memories, inputs.documents):
        for older_id in found.premise_ids:
            pair = (found.memory_id, older_id)
            if pair not in decided and _is_open(rows.get(pair)):
                derived[pair] = _derive(found, rows.get(pair))
    changed = _name_other_premises(rows | derived)
    kept = relations.join(_pairs(changed), on=["newer_id", "older_id"], how="anti")
    return pl.concat([kept, _to_frame(changed, relations, memories)]).sort("relation_id")


_COLUMNS = ("newer_id", "older_id", "label", "conflict", "confidence", "labeler", "evidence", "consequence")


def without_premises(relations: pl.DataFrame) -> pl.DataFrame:
    """Returns relations as their labelers gave them, what `add_premises` added or changed undone; in any order."""
    relations = completed("relations", relations)
    is_changed = pl.col("evidence").fill_null("").str.contains(f'"{PREMISES}": [', literal=True) | (
        pl.col("labeler") == PREMISES
    )
    restored = []
    for row in relations.filter(is_changed).iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        evidence.pop(PREMISES, None)
        if row["labeler"] != PREMISES:
            restored.append({**row, "evidence": to_json(evidence)})
        elif (labeled := evidence.get("labeled")) is not None:
            restored.append({**row, **labeled, "evidence": to_json(labeled["evidence"])})
    rows = pl.DataFrame(restored, schema=relations.schema, orient="row")
    return pl.concat([relations.filter(~is_changed.fill_null(False)), rows])


def label_counts(relations: pl.DataFrame) -> dict[str, float]:
    """Returns the number of relations of each label, and of those that `add_premises` made in `premises`."""
    added = relations.filter(pl.col("labeler") == PREMISES).height
    return {name: float(n) for name, n in (count_labels(relations) | {PREMISES: added}).items()}


def _search(relations: pl.DataFrame, memories: pl.DataFrame, documents: pl.DataFrame) -> Iterator[Premises]:
    known = _grouped(relations.filter(label=DERIVE).select("newer_id", "older_id").iter_rows())
    replaced_by = _grouped(relations.filter(label="UPDATE").select("older_id", "newer_id").iter_rows())
    state = recency_columns(memories, documents).with_columns(memories["text"])
    for _, members in state.sort(*SCOPE, *_ORDER, nulls_last=False).group_by(SCOPE, maintain_order=True):
        columns = members.select("memory_id", "text", "at", "line", "seq", "ordinal", "live")
        statements = [Statement(m, text, at, line, (q, o), live) for m, text, at, line, q, o, live in columns.rows()]
        yield from find_premises(ScopeStatements(statements, known, replaced_by))


def _grouped(pairs: Iterable[tuple[str, ...]]) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, set()).add(value)
    return groups


def _is_open(relation: _Relation | None) -> bool:
    """Returns whether a pair may become DERIVE: it has no relation, or a NONE without conflict of offline rules."""
    return relation is None or (
        relation.label == "NONE" and relation.labeler == _OFFLINE and relation.consequence is None
    )


def _derive(found: Premises, labeled: _Relation | None) -> _Relation:
    evidence: JsonObject = dict(found.evidence)
    if labeled is not None:
        fields = {name: getattr(labeled, name) for name in _LABELED}
        evidence["labeled"] = {**fields, "evidence": json.loads(labeled.evidence)}
    return _Relation(DERIVE, None, found.confidence, PREMISES, to_json(evidence))


def _name_other_premises(rows: Mapping[tuple[str, str], _Relation]) -> dict[tuple[str, str], _Relation]:
    """Returns the relations of `add_premises`, and each DERIVE of a memory that has several, naming the others."""
    premises = _grouped(pair for pair, relation in rows.items() if relation.label == DERIVE)
    changed = {}
    for (newer_id, older_id), relation in rows.items():
        if relation.label != DERIVE:
            continue
        others = sorted(premises[newer_id] - {older_id})
        if others or relation.labeler == PREMISES:
            evidence = json.loads(relation.evidence or "{}") | ({PREMISES: others} if others else {})
            changed[newer_id, older_id] = _Relation(
                relation.label, relation.conflict, relation.confidence, relation.labeler, to_json(evidence)
            )
    return changed


def _pairs(pairs: Iterable[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(list(pairs), schema={"newer_id": pl.String, "older_id": pl.String}, orient="row")


def _to_frame(
    changed: Mapping[tuple[str, str], _Relation], relations: pl.DataFrame, memories: pl.DataFrame
) -> pl.DataFrame:
    """Returns rows of relations; one that had a row keeps its program and time, so that its label is carried over."""
    pairs = _pairs(changed)
    results: Sequence[_Relation] = list(changed.values())
    own_program = content_id(PREMISES, code_hash(("palimpsest.relations.premise_relations",)))
    earlier = relations.select(
        *("newer_id", "older_id", "program_hash", "decided_at", "consequence", "part", "likelihood"), known="input_hash"
    )
    scopes = memories.select(*SCOPE, newer_id="memory_id")
    rows = (
        pair_keys(pairs, memories)
        .with_columns(
            pl.Series("label", [r.label for r in results], pl.String),
            pl.Series("conflict", [r.conflict for r in results], pl.String),
            pl.Series("confidence", [r.confidence for r in results], pl.Float64),
            pl.Series("labeler", [r.labeler for r in results], pl.String),
            pl.Series("evidence", [r.evidence for r in results], pl.String),
        )
        .join(scopes, on="newer_id", how="left")
        .join(earlier, on=["newer_id", "older_id"], how="left")
        .with_columns(pl.col("program_hash").fill_null(own_program), input_hash=pl.coalesce("known", "input_hash"))
        .drop("known")
    )
    return conform("relations", rows)
