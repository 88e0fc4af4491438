"""Commands that read a home: searches, names, facts, profiles, notes, summaries, single memories, scopes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, get_args, get_origin

import click

from palimpsest.cli.shared import STRATEGY, WHICH_COLLECTION, Call, common, common_options, gathered, visible
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.query.request.search_request import OPTIONS, SearchOptions, bounds, offer
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import changed_line

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from palimpsest.query.graph.fact_table import FactAnswer, FactTable
    from palimpsest.query.notes import Note
    from palimpsest.query.profile import Profile
    from palimpsest.query.reader import Reader
    from palimpsest.query.request.types import Scope, Shown
    from palimpsest.query.standing import StandingAnswer
    from palimpsest.query.summarize import Summary
    from palimpsest.store.decisions import Verdict

_Command = TypeVar("_Command", bound=Callable[..., object])
_MAX_OTHERS = 6


def search_options(command: _Command) -> _Command:
    """Adds the fields of a search to a command, in their order, as the keyword arguments of `Reader.search`."""
    for name, field in reversed(OPTIONS.items()):
        command = click.option(flag_of(name, field), name, **_click_type(field), help=field.description)(command)
    return command


def flag_of(name: str, field: "FieldInfo") -> str:
    """Returns the option of a field; one that may be given again is named in the singular."""
    return offer(field).flag or f"--{(name.removesuffix('s') if _is_list(field) else name).replace('_', '-')}"


def _is_list(field: "FieldInfo") -> bool:
    return get_origin(field.annotation) is tuple


def _click_type(field: "FieldInfo") -> dict[str, Any]:
    """Returns the arguments of click.option that follow from the kind and the default of a field."""
    kind, (low, high) = field.annotation, bounds(field)
    if kind is bool:
        return {"is_flag": True}
    if _is_list(field):
        item = get_args(kind)[0]
        choices = {} if item is str else {"type": click.Choice(get_args(item), case_sensitive=False)}
        return {"multiple": True, **choices}
    shown = {"default": field.default, "show_default": field.default not in (None, "")}
    if kind is int:
        return {"type": click.IntRange(offer(field).least or low, high), **shown}
    if kind == float | None:
        return {"type": float}
    if kind == str | Weights:
        return {"type": STRATEGY, **shown}
    return {"type": click.Choice(get_args(kind)) if get_origin(kind) is Literal else str, **shown}


@click.command()
@common
@click.argument("text")
@click.option("--collection", help=f"Collection to search. {WHICH_COLLECTION}")
@click.option("--user", help="Whose memories. [default: the collection's user_id]")
@click.option("--all-projects", is_flag=True, help="Search all projects of the user and the general memory.")
@click.option("--all-collections", is_flag=True, help="Search every collection of the user.")
@search_options
@click.option(
    "--reranker",
    help="lm, or a cross-encoder (folder or name), which reads the best 30. [default: $PALIMPSEST_RERANKER, else none]",
)
@click.option("--message", "as_message", is_flag=True, help="Print the context as one message of a chat.")
def query(
    call: Call,
    text: str,
    collection: str | None,
    user: str | None,
    all_projects: bool,
    all_collections: bool,
    reranker: str | None,
    as_message: bool,
    **options: Unpack[SearchOptions],
) -> None:
    """Search memories by scope: ranked memories, then the packed, cited context."""
    from palimpsest.core.message import Message
    from palimpsest.query.reader import open_home
    from palimpsest.query.result import results_text

    compressor = "lm" if options["compress"] == "lm" else None
    with open_home(call.home_path, backend=call.backend, reranker=reranker, compressor=compressor) as reader:
        scopes = reader.resolve_scopes(
            collection,
            user,
            options.pop("project"),
            all_projects=all_projects,
            all_collections=all_collections,
            include_pending=options["include_pending"],
        )
        if collection is None and not all_collections:
            say_collection(reader, scopes)
        options["turns"] = [Message.of_text(str(turn)) for turn in options["turns"]]
        results = reader.search(text, scopes, **options)
        call.text(results.message()["content"] if as_message else results_text(results, options["explain"]))
        call.result(results.to_json() | ({"message": {**results.message()}} if as_message else {}))


def say_collection(reader: "Reader", scopes: "Sequence[Scope]") -> None:
    """Says on stderr which collection is read, where none was named and the build has several."""
    others = sorted({s.collection for s in reader.scopes()} - {s.collection for s in scopes})
    if scopes and others:
        names = ", ".join(others[:_MAX_OTHERS]) + (" and more" if len(others) > _MAX_OTHERS else "")
        at = scopes[0]
        click.echo(f"in collection {at.collection}, user {at.user_id}; --collection names another: {names}", err=True)


@click.command()
@common
@click.argument("name")
@click.argument("other", required=False)
@click.option("--same", "verdict", flag_value="same", help="NAME and OTHER are one, from the next build on.")
@click.option("--apart", "verdict", flag_value="apart", help="NAME and OTHER are two, from the next build on.")
@click.option("--undecided", "verdict", flag_value="undecided", help="Take such a decision back.")
@click.option("--collection", help=f"Collection of the names. {WHICH_COLLECTION}")
@click.option("--user", help="Whose names. [default: the collection's user_id]")
@click.option("--project", default="", help="Project of the names. [default: the general memory]")
def entity(
    call: Call,
    name: str,
    other: str | None,
    verdict: "Verdict | None",
    collection: str | None,
    user: str | None,
    project: str,
) -> None:
    """Show what a name refers to and why, or decide that two names are one, or are not."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.entities import entity_decisions
    from palimpsest.query.reader import open_home

    if (other is None) != (verdict is None):
        raise click.UsageError(
            "two names need one of --same, --apart or --undecided; to look up one name, give it alone"
        )
    with open_home(call.home_path, backend=call.backend) as reader:
        scope = reader.resolve_scope(collection, user, project)
    if other is None or verdict is None:
        found = entity_decisions.explain_entity(call.home, scope, name)
        call.show(entity_decisions.entity_text(found), {"entities": [entity.to_json() for entity in found]})
        return
    decision = entity_decisions.decide_names(call.home, scope, name, other, verdict)
    call.show(f"{name} and {other}: {verdict}, from the next palimpsest build on", decision.to_json())


# The command that lists the scopes of a home: collections, users and projects.


@click.command()
@common
@click.option("--collection", help="Only scopes of this collection.")
@click.option("--user", help="Only scopes of this user.")
def scopes(call: Call, collection: str | None, user: str | None) -> None:
    """List collections, users and projects of the published build, with the number of their memories."""
    from palimpsest.query.reader import open_home
    from palimpsest.query.result import scopes_text

    with open_home(call.home_path, backend=call.backend) as reader:
        reader.check_names(collection, user)
        found = [
            (scope, size)
            for scope, size in reader.scope_sizes().items()
            if collection in (None, scope.collection) and user in (None, scope.user_id)
        ]
    call.show(scopes_text(found), {"scopes": [{**scope._asdict(), "memories": size} for scope, size in found]})


# Options of the commands that read scopes of a home, and the reader of what they name.


@dataclass(frozen=True)
class ScopeCall(Call):
    """One call of a command with `scope_options`, and perhaps with `privacy_options`."""

    collection: str | None
    user: str | None
    project: str | None
    include_hidden: bool = False
    include_pii: bool = False

    @property
    def shown(self) -> "Shown":
        """The values of `privacy_options`, as the reader takes them."""
        return {"include_hidden": self.include_hidden, "include_pii": self.include_pii}

    @contextmanager
    def open(self, *, all_collections: bool = False) -> Iterator[tuple["Reader", Sequence["Scope"]]]:
        """Opens the home.

        Args:
            all_collections: every collection in which the user has memories.

        Yields:
            The reader, and the scopes that the options name.

        Raises:
            PalimpsestError: nothing is published there, or the build has no such scope.
        """
        from palimpsest.query.reader import open_home

        with open_home(self.home_path, backend=self.backend) as reader:
            scopes = reader.resolve_scopes(self.collection, self.user, self.project, all_collections=all_collections)
            if self.collection is None and not all_collections:
                say_collection(reader, scopes)
            yield reader, scopes


def scope_options(f: Callable[..., object]) -> Callable[..., object]:
    """Adds the options of `common`, --collection, --user and --project to a command; it gets a `ScopeCall`."""
    f = gathered(ScopeCall)(f)
    f = click.option("--project", help="This project and the general memory. [default: the general memory alone]")(f)
    f = click.option("--user", help="Whose memories. [default: the collection's user_id]")(f)
    f = click.option("--collection", help=f"Collection to read. {WHICH_COLLECTION}")(f)
    return common_options(f)


def privacy_options(f: _Command) -> _Command:
    """Adds --include-pii and --include-hidden to a command."""
    f = click.option("--include-pii", is_flag=True, help="Also what is marked pii: true: personal data.")(f)
    return click.option("--include-hidden", is_flag=True, help="Also what is marked user_visible: false.")(f)


_SHOWN = 100  # lines for people; JSON has all


# Commands over the fact table of a scope.


@click.group()
def fact() -> None:
    """The fact table of a scope: keys such as ana.works_for, their values, and the memories that state them."""


@fact.command(name="list", short_help="The facts of a subject, or of all.")
@scope_options
@privacy_options
@click.option("--subject", default="", help="A name or an alias. [default: all]")
@click.option("--history", is_flag=True, help="Also what only superseded memories state.")
def list_facts(given: ScopeCall, subject: str, history: bool) -> None:
    """The facts of a scope by key; those that conflict are marked."""
    _show(lambda table: table.facts(subject, history=history), given)


@fact.command(short_help="The facts of a key; the nearest where there is none.")
@click.argument("text", metavar="KEY|TEXT")
@scope_options
@privacy_options
@click.option("--history", is_flag=True, help="Also what only superseded memories state.")
def get(given: ScopeCall, text: str, history: bool) -> None:
    """The facts of KEY, such as ana.works_for or "Ana works for"; for any other TEXT those of what a search finds."""
    _show(lambda table: table.get(text, history=history), given)


def _show(look_up: "Callable[[FactTable], FactAnswer]", given: ScopeCall) -> None:
    with given.open() as (reader, scopes):
        answer = look_up(reader.facts(scopes, **given.shown))
    given.text(_text(answer))
    given.result(answer.to_json())


def _text(answer: "FactAnswer") -> str:
    if not answer.facts:
        return "no facts found in this scope; palimpsest scopes lists whose memories there are"
    lines = [] if answer.is_direct else ["no such key; the facts of the memories that fit best:"]
    for f in answer.facts[:_SHOWN]:
        value = f"not {f.value}" if f.is_negated else f.value
        notes = [] if f.is_latest else ["superseded"]
        notes += [f"also stated: {', '.join(f.conflicts)}"] if f.conflicts else []
        since = f"since {f.valid_from.date().isoformat()}" if f.valid_from else ""
        about = "; ".join(n for n in (since, *notes) if n)
        cited = " ".join(f"[memory:{i}]" for i in f.provenance[:3])
        line = " ".join(f"{f.key} = {value}{f' ({about})' if about else ''} {cited}".split())
        lines.append(changed_line(line, f.disputed_by))
    if len(answer.facts) > _SHOWN:
        lines.append(f"and {len(answer.facts) - _SHOWN} more; --json has all")
    return "\n".join(lines)


# Commands that show what is known of a user, the notes of sessions, and summaries.

_READ_PER_SENTENCE = 4  # of an extractive summary, for each sentence that a model writes
_SHOWN_LINES = 40  # lines of a section for people; JSON has all


_NO_NOTE = "no note of this session in this scope; palimpsest notes without a session lists the newest"
_NO_NOTES = (
    "no notes in this scope: palimpsest scopes lists users for --user; a collection forms notes with "
    "form: [turn, reflection] in collection.yaml"
)


@click.command()
@common_options
@click.argument("user")
@click.option("--collection", help="Only this collection. [default: every one in which the user has memories]")
@click.option("--project", help="This project and the general memory. [default: the general memory alone]")
@privacy_options
@gathered(ScopeCall)
def profile(given: ScopeCall) -> None:
    """What USER states of themselves and what was formed from it: what lasts, then what is recent, each line cited.

    Then what the build found for the standing questions of questions.yaml; + marks what is new since the build before.
    """
    with given.open(all_collections=given.collection is None) as (reader, scopes):
        found = reader.profile(scopes, **given.shown)
        answers = reader.standing_answers(scopes)
    given.text(_profile_text(found, answers))
    given.result({**found.to_json(), "standing": [a.to_json() for a in answers]})


def _profile_text(profile: "Profile", answers: "Sequence[StandingAnswer]") -> str:
    if not profile.lines and not answers:
        return (
            f"nothing stored states a lasting fact or preference of {profile.user}; palimpsest scopes lists whose "
            "memories there are, and palimpsest query searches them"
        )
    lines = []
    for title, section in (("Lasting", profile.static), ("Recent", profile.dynamic)):
        lines += [title, *(f"  {line.cited}" for line in section[:_SHOWN_LINES])] if section else []
        if len(section) > _SHOWN_LINES:
            lines.append(f"  and {len(section) - _SHOWN_LINES} more; --json has all")
    for answer in answers:
        weak = " (weak evidence)" if answer.stored.is_weak else ""
        lines += [f"{answer.stored.question}{weak}", *(f"  {line}" for line in answer.lines() or ["  no answer"])]
    return "\n".join(lines)


@click.command()
@click.argument("session", required=False)
@scope_options
@click.option("--task", help="Sum up a task: uri or title of its source, with the sources that its links name.")
@click.option("--abstractive", is_flag=True, help="Let the model of PALIMPSEST_LM rewrite it in fewer sentences.")
@click.option("--sentences", type=click.IntRange(1, 50), default=5, show_default=True, help="How many at most.")
def summarize(given: ScopeCall, session: str | None, task: str | None, abstractive: bool, sentences: int) -> None:
    """The sentences that sum up SESSION or a task, each cited; without one, those of all sessions of the scope."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.query.summarize import MAX_SENTENCES

    if session and task:
        raise click.UsageError("SESSION and --task exclude each other; name one")
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
    given.text("\n".join(lines))
    given.result(found.to_json())


def _print_abstract(given: ScopeCall, summary: "Summary", sentences: int) -> None:
    from palimpsest.core.errors import ComponentFailed
    from palimpsest.query.lm_summary import LmSummarizer

    written = LmSummarizer().rewrite(summary, sentences)
    if written.failed:
        raise ComponentFailed(f"--abstractive: {written.failed}; run again, or without it")
    note = (
        [f"({counted(written.dropped, 'sentence')} left out: their sources do not state them)"]
        if written.dropped
        else []
    )
    given.text("\n".join([*(s.cited for s in written.sentences), *note]))
    given.result(written.to_json())


@click.command()
@click.argument("session", required=False)
@scope_options
@privacy_options
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many notes.")
def notes(given: ScopeCall, session: str | None, limit: int) -> None:
    """The note of SESSION, or of the newest sessions of the scope: facts, preferences, decisions, open questions.

    Only collections that form memories (form: [turn, reflection]) have notes.
    """
    with given.open() as (reader, scopes):
        found = reader.notes(scopes, session, **given.shown, limit=limit)
    given.text(_notes_text(found) or (_NO_NOTE if session else _NO_NOTES))
    given.result({"notes": [note.to_json() for note in found]})


def _notes_text(notes: "Sequence[Note]") -> str:
    from palimpsest.query.notes import SECTIONS

    lines = []
    for note in notes:
        day = f", {note.time.date().isoformat()}" if note.time else ""
        lines.append(f"{note.session_id or 'no session'}{day}")
        for kind, title in SECTIONS.items():
            lines += [f"  {title.replace('_', ' ')}: {line.cited}" for line in note.of_kind(kind)]
    return "\n".join(lines)


# The commands `palimpsest memory show|source|edit`: one memory, by the id that a context cites.


@click.group()
def memory() -> None:
    """Show one memory, its place in its source, or edit its words."""


@memory.command()
@click.argument("memory_id", metavar="ID")
@scope_options
def show(given: ScopeCall, memory_id: str) -> None:
    """Show the memory with ID, superseded or not, and the versions of its fact."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.query.result import history_json, memory_json, memory_text

    with given.open() as (reader, scopes):
        found = reader.memory_with_changes(scopes, memory_id)
        if found is None:
            raise PalimpsestError(_unknown(memory_id))
        versions = next(filter(None, (reader.history_of(s, memory_id) for s in scopes)), ())
        fields = {**memory_json(found), "history": list(history_json(versions))}
    given.text(visible(memory_text(found, versions)))
    given.result(fields)


@memory.command()
@click.argument("memory_id", metavar="ID")
@scope_options
@click.option("--reach", type=click.IntRange(0, 100), default=12, show_default=True, help="Memories on each side.")
def source(given: ScopeCall, memory_id: str, reach: int) -> None:
    """Show the memory with ID among those before and after it in its session or document."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.query.result import memory_json

    with given.open() as (reader, scopes):
        found = reader.surroundings(scopes, memory_id, reach)
    if not found:
        raise PalimpsestError(_unknown(memory_id))
    for m in found:
        speaker = f"{m.speaker}: " if m.speaker else ""
        given.text(f"{'>' if m.memory_id == memory_id else ' '} {speaker}{m.text}  [memory:{m.memory_id}]")
    given.result({"memories": [memory_json(m) for m in found]})


@memory.command()
@click.argument("memory_id", metavar="ID")
@click.argument("text")
@scope_options
def edit(given: ScopeCall, memory_id: str, text: str) -> None:
    """Replace the words of the memory with ID by TEXT; the next build forms it, and what it was stays as history."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.export.edit_document import edit_memory

    with given.open() as (reader, scopes):
        own = [s for s in scopes if reader.memory([s], memory_id, include_hidden=True, include_pii=True)]
        own = own or [s for s in scopes if reader.memory_with_changes([s], memory_id)]
    if not own:
        raise PalimpsestError(_unknown(memory_id))
    done = edit_memory(given.home, (own[0].collection, own[0].user_id, own[0].project_id), memory_id, text)
    given.text(f"{done.uri}: edited; the next palimpsest build forms the memory anew and keeps what it was as history")
    given.result(done.to_json())


def _unknown(memory_id: str) -> str:
    return f"{memory_id[:40]}: no such memory in this scope; name its --collection and --user"
