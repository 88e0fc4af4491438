"""The functions that apply patterns to texts of others, each as a function of one text, as its callers use it."""

import datetime as dt
import json
from collections.abc import Callable

from palimpsest.core.errors import PalimpsestError, Rejected
from palimpsest.entities.find_names import find_names
from palimpsest.entities.scope_evidence import _names_in
from palimpsest.entities.stated_names import find_stated_names
from palimpsest.facts.extract_facts import extract_facts
from palimpsest.facts.fact import Mentioned, Named
from palimpsest.formation.note_table import form_with_summaries, session_summary
from palimpsest.formation.sentence_model import read_sentence
from palimpsest.formation.session import Session, Turn
from palimpsest.lm.engine import contains_instructions, find_quote
from palimpsest.nodes.stressors import stated_stressors
from palimpsest.nodes.type_evidence import name_type
from palimpsest.query.context.lines import harmless
from palimpsest.query.request.resolve_turns import resolve_text
from palimpsest.query.request.where import parse_where
from palimpsest.relations.labelers.reading import number_template, read_sentences
from palimpsest.relations.labelers.rule_facts import read_value
from palimpsest.relations.premise_relations import find_conclusion
from palimpsest.relations.premise_statements import amounts
from palimpsest.sources.extracted import Source
from palimpsest.sources.readers.chat_exports import format_text
from palimpsest.sources.readers.encodings import title_from_uri
from palimpsest.sources.readers.read_source import read_bytes
from palimpsest.sources.readers.text_builder import format_row
from palimpsest.sources.storage_policy import redact_text
from palimpsest.store.collection_config import Limits
from palimpsest.text.date_mentions import find_date_mentions, find_relative_dates
from palimpsest.text.dates import parse_stated_time, written_dates
from palimpsest.text.parse import parse_texts
from palimpsest.text.quantities import quantities
from palimpsest.text.questions import listed_nouns, parse_question_time, requested_kinds
from palimpsest.text.referents import opening_referents
from palimpsest.text.sentences import document_sentence_spans, memory_sentence_spans
from palimpsest.text.terms import candidate_name_keys, cut_sentences, terms
from palimpsest.text.words import content_words
from palimpsest_eval.golden.answers import _SOURCE

_DAY = dt.date(2026, 5, 31)
_MAIL = (
    "From: Ana <ana@example.org>\nTo: Ben <ben@example.org>\nSubject: {0}\n"
    "Date: Mon, 4 May 2026 10:00:00 +0000\n\n{1}\n"
)


def _read(suffix: str, form: str = "{}") -> Callable[[str], object]:
    """Returns a function that reads a file of a suffix that has a text where its form says."""

    def read(text: str) -> object:
        data = form.replace("{}", text).encode("utf-8", "replace")
        return read_bytes(Source(uri=f"a{suffix}", suffix=suffix, data=data), Limits())

    return read


def _mail(text: str) -> object:
    data = _MAIL.format(" ".join(text.split())[:900], text).encode("utf-8", "replace")
    return read_bytes(Source(uri="a.eml", suffix=".eml", data=data), Limits())


def _turns(text: str) -> object:
    line = json.dumps({"session_id": "s", "speaker": "Ana", "text": text, "timestamp": "2026-05-04T10:00:00Z"})
    return _read(".jsonl")(line + "\n")


def _names(text: str) -> object:
    return list(find_stated_names(text, find_names(text), "Ana"))


def _session(text: str) -> Session:
    """Returns a session in which two people say the same text."""
    return Session("d", (Turn("Ana", text, 0), Turn("Ben", text, len(text) + 1)))


def _one_turn(text: str) -> Session:
    return Session("d", (Turn("Ana", text, 0),))


def _features(text: str) -> object:
    session = _one_turn(text)
    return [read_sentence(session, 0, i, None) for i in range(len(session.turns[0].sentences))]


def _facts(text: str) -> object:
    names = [Mentioned(n.surface, n.char_start, n.char_end) for n in find_names(text)]
    types = dict.fromkeys((n.entity_id for n in names), "name")
    return extract_facts(text, next(parse_texts([text])), Named(names, types, speaker="Ana"))


FORMATION = "formation"
MOST_SECONDS = {FORMATION: 30.0}
"""Of 100,000 characters, where it is not one second: formation parses every sentence of two turns that has a cue."""

FUNCTIONS: dict[str, Callable[[str], object]] = {
    "sentences of a document": lambda text: document_sentence_spans(text, 0, len(text)),
    "sentences of a memory": memory_sentence_spans, "words of sentences": cut_sentences, "terms": terms,
    "content words": content_words, "names": _names,
    "names of people in metadata": lambda text: _names_in(json.dumps({"authors": text})),
    "names looked up": candidate_name_keys, "type of a name": name_type, "dates": find_date_mentions,
    "relative dates": lambda text: find_relative_dates(text, _DAY), "dates in names and titles": written_dates,
    "stated time": lambda text: parse_stated_time(text),
    "time of a question": lambda text: parse_question_time(text, _DAY),
    "question after turns": lambda text: resolve_text(text, [text, text]), "listed nouns": listed_nouns,
    "where": parse_where, "message": harmless, "cited source": lambda text: _SOURCE.fullmatch("[memory:a] " + text),
    "referents": lambda text: opening_referents([text, "It is " + text], [1, 1]),
    "relation rules": lambda text: read_sentences(text, "Ana"), "values": read_value,
    "number templates": number_template, "quantities": quantities, "amounts": amounts, "conclusions": find_conclusion,
    "stressors": lambda text: list(stated_stressors(text)), "kinds of a question": requested_kinds,
    "features of sentences": _features, "summary of a session": lambda text: session_summary(_one_turn(text)),
    "facts": _facts, FORMATION: lambda text: list(form_with_summaries([_session(text)])),
    "guard of a language model": contains_instructions,
    "quote of a language model": lambda text: find_quote(text, text[: len(text) // 2] + "!"), "secrets": redact_text,
    "title of a file name": title_from_uri, "row of a table": lambda text: format_row([text, text]),
    "Slack message": lambda text: format_text(text, {}), "text file": _read(".txt"), "AsciiDoc": _read(".adoc"),
    "Markdown": _read(".md"), "Markdown with front matter": _read(".md", "---\ntitle: {}\n---\ntext\n"),
    "HTML": _read(".html", "<html><body><p>{}</p></body></html>"),
    "HTML attribute": _read(".html", '<html><body><div class="{}"><p>words</p></div></body></html>'),
    "captions": _read(".vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\n{}\n"),
    "captions, times": _read(".vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\nwords\n\n{} --> {}\nwords\n"),
    "CSV": _read(".csv", "a,b\n{}\n1,2\n"), "JSON lines": _turns, "JSON": _read(".json"), "mail": _mail,
}  # fmt: skip


def call(name: str, text: str) -> None:
    """Calls a function; that it refuses the text is no fault here."""
    try:
        FUNCTIONS[name](text)
    except (PalimpsestError, Rejected, ValueError):
        return
