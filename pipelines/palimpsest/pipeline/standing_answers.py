"""Answers the standing questions of the collections of a build, from its index."""

from contextlib import suppress
from typing import NamedTuple

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.standing import StoredAnswer, read_stored, write_stored
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest.store.standing_questions import StandingQuestion, load_standing_questions


class _Owned(NamedTuple):
    """A question to be answered for one user."""

    collection: str
    user_id: str
    question: StandingQuestion


def answer_standing_questions(home: Home, build: Build, base: Build | None) -> int:
    """Searches the standing questions of every collection for every user, and stores which memories answer them.

    A build that has answers already, which a delete rewrites, answers the same questions again; so does one whose
    folder of a collection is gone, with those of the build before.

    Args:
        home: the home, whose `sources` are the folders.
        build: the build; its index is written.
        base: the build that this one follows.

    Returns:
        The number of answers.
    """
    rewritten = read_stored(build.path)
    known = rewritten or (read_stored(base.path) if base else {})
    folders = {} if rewritten else {n: f for n in build.collections if (f := home.sources.get(n)) and f.is_dir()}
    loaded = {}
    for name, folder in folders.items():
        with suppress(PalimpsestError):  # the plan says why; the questions of the build before are answered
            loaded[name] = load_standing_questions(folder)
    if not known and not any(loaded.values()):
        return 0
    with open_index(build.index) as reader:
        scopes: dict[tuple[str, str], list[Scope]] = {}
        for scope in reader.scopes():
            scopes.setdefault((scope.collection, scope.user_id), []).append(scope)
        owned = [_Owned(*owner, q) for owner in scopes for q in loaded.get(owner[0], ()) if q.user in (None, owner[1])]
        owned += [
            _Owned(a.collection, a.user_id, StandingQuestion(id=a.question_id, question=a.question, k=a.k))
            for a in known.values()
            if a.collection not in loaded and (a.collection, a.user_id) in scopes
        ]
        answers = [_answer(reader, o, scopes[o.collection, o.user_id]) for o in owned]
    write_stored(build.path, answers)
    return len(answers)


def _answer(reader: Reader, owned: _Owned, scopes: list[Scope]) -> StoredAnswer:
    question = owned.question
    found = reader.search(question.question, scopes, k=question.k)
    return StoredAnswer(
        collection=owned.collection,
        user_id=owned.user_id,
        question_id=question.id,
        question=question.question,
        k=question.k,
        memory_ids=tuple(m.memory_id for m in found.memories),
        relevance=round(max((m.relevance for m in found.memories), default=0.0), 6),
    )
