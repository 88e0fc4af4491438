"""Commands that show what is known of a user, the notes of sessions, and summaries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from palimpsest.cli.scope_options import ScopeOptions, privacy_options, scope_options
from palimpsest.cli.shared import common

if TYPE_CHECKING:
    from palimpsest.query.notes.note import Note
    from palimpsest.query.profile.profile import Profile
    from palimpsest.query.profile.standing import StandingAnswer
    from palimpsest.query.summary.summarize import Summary

_READ_PER_SENTENCE = 4  # of an extractive summary, for each sentence that a model writes
_SHOWN = 40  # lines of a section for people; JSON has all


_NO_NOTE = "no note of this session in this scope; palimpsest notes without a session lists the newest"
_NO_NOTES = (
    "no notes in this scope: palimpsest scopes lists users for --user; a collection forms notes with "
    "form: [turn, reflection] in collection.yaml"
)


@click.command(short_help="What is known of a user, with citations.")
@common
@click.argument("user")
@click.option("--collection", help="Only this collection. [default: every one in which the user has memories]")
@click.option("--project", help="This project and the general memory. [default: the general memory alone]")
@privacy_options
def profile(**options: Any) -> None:
    """What USER states of themselves and what was formed from it: what lasts, then what is recent, each line cited.

    Then what the build found for the standing questions of questions.yaml; + marks what is new since the build before.
    """  # noqa: DOC501 (the docstring is the help text)
    if not options["user"].strip():
        raise click.UsageError("USER is empty; palimpsest scopes lists users")
    given = ScopeOptions(**options)
    with given.open(all_collections=given.collection is None) as (reader, scopes):
        found = reader.profile(scopes, **given.shown)
        answers = reader.standing_answers(scopes)
    given.output.text(_text(found, answers))
    given.output.result({**found.to_json(), "standing": [a.to_json() for a in answers]})


def _text(profile: "Profile", answers: "Sequence[StandingAnswer]") -> str:
    if not profile.lines and not answers:
        return (
            f"nothing stored states a lasting fact or preference of {profile.user}; palimpsest scopes lists whose "
            "memories there are, and palimpsest query searches them"
        )
    lines = []
    for title, section in (("Lasting", profile.static), ("Recent", profile.dynamic)):
        lines += [title, *(f"  {line.cited}" for line in section[:_SHOWN])] if section else []
        if len(section) > _SHOWN:
            lines.append(f"  and {len(section) - _SHOWN} more; --json has all")
    for answer in answers:
        weak = " (weak evidence)" if answer.stored.is_weak else ""
        lines += [f"{answer.stored.question}{weak}", *(f"  {line}" for line in answer.lines() or ["  no answer"])]
    return "\n".join(lines)


@click.command(short_help="Sum up a session, or the sessions of a scope.")
@common
@click.argument("session", required=False)
@scope_options
@click.option("--task", help="Sum up a task: uri or title of its source, with the sources that its links name.")
@click.option("--abstractive", is_flag=True, help="Let the model of PALIMPSEST_LM rewrite it in fewer sentences.")
@click.option("--sentences", type=click.IntRange(1, 50), default=5, show_default=True, help="How many at most.")
def summarize(session: str | None, task: str | None, abstractive: bool, sentences: int, **options: Any) -> None:
    """The sentences that sum up SESSION or a task, each cited; without one, those of all sessions of the scope."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.query.summary.summarize import MAX_SENTENCES

    if session and task:
        raise click.UsageError("SESSION and --task exclude each other; name one")
    given = ScopeOptions(**options)
    read = min(sentences * _READ_PER_SENTENCE, MAX_SENTENCES) if abstractive else sentences
    with given.open() as (reader, scopes):
        if task:
            found = reader.summarize_task(scopes, task, read)
        elif session is None:
            found = reader.summarize(scopes, read)
        else:
            found = reader.summarize_session(scopes, session, read)
    if abstractive and found.sentences:
        _print_abstract(given, found, sentences)
        return
    lines = [s.cited for s in found.sentences] or ["nothing to sum up in this scope"]
    given.output.text("\n".join(lines))
    given.output.result(found.to_json())


def _print_abstract(options: ScopeOptions, summary: "Summary", sentences: int) -> None:
    from palimpsest.core.errors import ComponentFailed
    from palimpsest.query.summary.lm_summary import LmSummarizer

    written = LmSummarizer().rewrite(summary, sentences)
    if written.failed:
        raise ComponentFailed(f"--abstractive: {written.failed}; run again, or without it")
    note = [f"({written.dropped} sentences left out: their sources do not state them)"] if written.dropped else []
    options.output.text("\n".join([*(s.cited for s in written.sentences), *note]))
    options.output.result(written.to_json())


@click.command(short_help="What sessions say that is worth keeping.")
@common
@click.argument("session", required=False)
@scope_options
@privacy_options
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many notes.")
def notes(session: str | None, limit: int, **options: Any) -> None:
    """The note of SESSION, or of the newest sessions of the scope: facts, preferences, decisions, open questions.

    Only collections that form memories (form: [turn, reflection]) have notes.
    """
    given = ScopeOptions(**options)
    with given.open() as (reader, scopes):
        found = reader.notes(scopes, session, **given.shown, limit=limit)
    given.output.text(_notes_text(found) or (_NO_NOTE if session else _NO_NOTES))
    given.output.result({"notes": [note.to_json() for note in found]})


def _notes_text(notes: "Sequence[Note]") -> str:
    from palimpsest.query.notes.note import SECTIONS

    lines = []
    for note in notes:
        day = f", {note.time.date().isoformat()}" if note.time else ""
        lines.append(f"{note.session_id or 'no session'}{day}")
        for kind, title in SECTIONS.items():
            lines += [f"  {title.replace('_', ' ')}: {line.cited}" for line in note.of_kind(kind)]
    return "\n".join(lines)
