"""What the words before and after a name show of it: `the guide Anders Moll`, `Basin is the database`, `in Brakel`.

Every rule is a regular expression over a short window of text at each mention; polars applies it to all mentions at
once, in linear time (the engine has no backtracking).
"""

from typing import NamedTuple

import polars as pl

from palimpsest.entities.names.lexicon import COUNTED, ONE, word_set
from palimpsest.nodes.type_nouns import head_noun, noun_type

_BEFORE_CHARS, _AFTER_CHARS = 60, 160
_DETERMINER = r"(?i:a|an|the|our|my|his|her|their|its|your|one of the|one of our|one of my)"
_ASIDE = r"(?:\s*\([^()]*\))?"
_CALLED = "(?:called|named|known as)"
_SETTLED = "town|city|village|hamlet|island|isle|county|province|district|borough|parish|port|state|kingdom|region"
_TECHNICAL = (
    "database|server|service|gateway|probe|logger|app|portal|broker|software|modem|sensor|board|tool|firmware|library|"
    "framework|module|cluster|project|programme|program|campaign|initiative"
)
_PERSONAL = word_set(
    """
    said says asked asks told tells thinks thought wrote writes joined married lives lived laughed laughs smiled phoned
    wants wanted knows knew promised hopes hoped likes liked loves loved hates hated believes remembers forgot forgets
    explained cooks cooked sings sang painted retired studied studies taught teaches learned learnt drove drives sleeps
    slept ate eats born cried complained apologised apologized grew brought thanked reminded insisted admitted wondered
    """
)
_ADVERBS = "has|had|will|would|was|is|also|then|never|always|still|often|later|once|now|just|only|first"
_KIN = "wife|husband|daughter|son|mother|father|brother|sister|friend|boss|birthday|parents|children|family|widow|uncle"


class _Rule(NamedTuple):
    """A rule of contexts: what it captures is a phrase whose head noun shows the type, unless `type` is given."""

    name: str
    side: str
    pattern: str
    weight: float
    type: str = ""


_RULES = (
    _Rule(
        "defined",
        "after",
        rf"^{_ASIDE}(?:,?\s+(?:which|who))?,?\s+(?:is|was|are|were|remains|remained|became|becomes|means)\s+"
        rf"(?:now |still |also |today |once |then |only )?{_DETERMINER}\s+([^.;:!?\n]+)",
        3.0,
    ),
    _Rule(
        "apposed", "after", rf"^{_ASIDE},\s+(?:then |now |once )?{_DETERMINER}\s+([^.,;:!?()\n]+)(?:[.,;]|\s*$)", 1.0
    ),
    _Rule("listed", "after", rf"^{_ASIDE}\s*[:\u2013\u2014]\s+(?:{_DETERMINER}\s+)?([a-z][^.,;:!?\n]+)", 1.5),
    _Rule("gapped", "after", rf"^\s+{_DETERMINER}\s+([a-z][^.,;:!?\n]{{2,40}}?)(?:[.,;]|\s+and\s)", 0.8),
    _Rule("labelled", "before", rf"\b{_DETERMINER}\s+(?:[a-z][\w-]*\s+){{0,3}}([a-z][\w-]*)\s+$", 1.5),
    _Rule(
        "called",
        "before",
        r"\b([a-z][\w-]*),?\s+(?:(?:is|was|are)\s+)?(?:called|named|known as)\s+(?:the\s+)?[\"“']?$",
        2.5,
    ),
    _Rule("settled", "before", rf"\b(?i:({_SETTLED}))\s+of\s+$", 2.0),
    _Rule("compound", "after", rf"^\s+({_TECHNICAL})s?\b", 0.5),
    _Rule("where", "before", r"\b(?:[Ii]n|[Nn]ear|[Oo]utside|[Aa]round|[Tt]owards)\s+$", 0.5, "place"),
    _Rule("route", "before", r"\b(?:[Ff]rom|[Tt]o|[Aa]t|[Tt]hrough|[Aa]bove|[Bb]elow)\s+$", 0.15, "place"),
    _Rule("counted", "before", rf"\b(?i:{'|'.join(sorted(COUNTED | ONE))}|\d+)\s+$", 0.5, "product"),
    _Rule("acts", "after", rf"^(?:\s+(?:{_ADVERBS}))?\s+(?:{'|'.join(sorted(_PERSONAL))})\b", 1.0, "person"),
    _Rule("who", "after", r"^,?\s+who(?:se|m)?\b", 1.5, "person"),
    _Rule("kin", "after", rf"^['\u2019]s\s+(?:\w+\s+)?(?:{_KIN})\b", 1.5, "person"),
    _Rule("addressed", "before", r"\b(?:Dear|Hi|Hello|Hey|Thanks|Thank you|Mr|Mrs|Ms|Miss|Dr)[.,]?\s+$", 2.0, "person"),
)
_LINE_START = r"(?:^|\n)\s*(?:[-*+•]\s*)?[*_`\"“]*$"
_CONDITIONS = {
    "listed": pl.col("before").str.contains(_LINE_START),  # elsewhere a colon defines nothing
    "gapped": pl.col("before").str.contains(r"[^.!?:\s]\s+$"),  # `Ask the owner.` is an order
}


def name_contexts(mentions: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, type, rule, weight, noun, memory_id) for each mention and rule that shows a type, unsorted.

    Args:
        mentions: the mentions table; those with no place in the text show nothing.
        memories: the memories table.
    """
    rows = (
        mentions.drop_nulls("char_start")
        .select("entity_id", "memory_id", "char_start", "char_end")
        .unique()
        .join(memories.select("memory_id", "text"), on="memory_id")
    )
    start = pl.col("char_start")
    rows = rows.select(
        "memory_id",
        node_id="entity_id",
        before=pl.col("text").str.slice(
            pl.max_horizontal(start - _BEFORE_CHARS, 0), pl.min_horizontal(start, _BEFORE_CHARS)
        ),
        after=pl.col("text").str.slice(pl.col("char_end"), _AFTER_CHARS),
    )
    typed, phrased = pl.collect_all(
        [
            pl.concat([_with_type_shown(rows.lazy(), rule) for rule in _RULES if rule.type]),
            pl.concat([_with_phrase(rows.lazy(), rule) for rule in _RULES if not rule.type]),
        ]
    )
    return pl.concat([typed, with_noun_types(phrased, "phrase").select(typed.columns)])


def _with_type_shown(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    found = _meeting_condition(rows, rule).filter(pl.col(rule.side).str.contains(rule.pattern))
    return found.select("node_id", "memory_id", *_of_rule(rule), noun=pl.lit(""), type=pl.lit(rule.type))


def _with_phrase(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    phrase = pl.col(rule.side).str.extract(rule.pattern, 1)
    found = _meeting_condition(rows, rule).select("node_id", "memory_id", *_of_rule(rule), phrase=phrase)
    return found.drop_nulls("phrase")


def _meeting_condition(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    condition = _CONDITIONS.get(rule.name)
    return rows if condition is None else rows.filter(condition)


def _of_rule(rule: _Rule) -> tuple[pl.Expr, pl.Expr]:
    return pl.lit(rule.name).alias("rule"), pl.lit(rule.weight, pl.Float64).alias("weight")


def with_noun_types(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Returns the rows whose phrase has a head noun that shows a type, with the columns `noun` and `type`."""
    phrases = frame[column].unique().drop_nulls().to_list()
    nouns = [head_noun(p) for p in phrases]
    known = pl.DataFrame(
        {column: phrases, "noun": nouns, "type": [noun_type(n) for n in nouns]},
        schema={column: pl.String, "noun": pl.String, "type": pl.String},
    )
    return frame.join(known.filter(pl.col("type") != ""), on=column)
