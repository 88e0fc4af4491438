"""LoCoMo and LongMemEval: long conversations, questions about them, and the turns that contain the answers."""

import re

from palimpsest_eval.suites.loaders.record import Record, records
from palimpsest_eval.suites.loaders.suite_draft import Item, SuiteDraft

_LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN = re.compile(r"D:?(\d+):(\d+)")  # "D:11:26" and "D30:05" occur too
_SESSION = re.compile(r"session_(\d+)")
_WEEKDAY = re.compile(r"(?:(?<!\s)\s++)?\([A-Za-z]++\)\s*+")


def load_locomo(items: list[Item], draft: SuiteDraft) -> None:
    """Adds LoCoMo: a scope for each conversation, a row for each turn.

    Source: Maharana et al., ACL 2024; snap-research/locomo, `data/locomo10.json`.
    """
    for sample in records(items, str(draft.source)):
        scope, conversation = sample.text("sample_id"), sample.child("conversation")
        for key in sorted(filter(_SESSION.fullmatch, conversation.values), key=lambda k: int(k.split("_")[1])):
            for turn in conversation.children(key):
                draft.add_row(
                    f"{scope}:{turn.text('dia_id')}",
                    str(turn.get("text") or ""),
                    scope=scope,
                    speaker=turn.get("speaker"),
                    session=key,
                    date_time=conversation.get(f"{key}_date_time"),
                    image_caption=turn.get("blip_caption"),
                )
        for i, qa in enumerate(sample.children("qa")):
            evidence = qa.items("evidence", required=False)
            turns = [f"{scope}:D{int(a)}:{int(b)}" for e in evidence for a, b in _TURN.findall(str(e))]
            category = qa.get("category")
            kind = _LOCOMO_TYPES.get(category) if isinstance(category, int) else None
            draft.add_query(f"{scope}:q{i}", qa.text("question"), turns, kind or str(category or ""), scope)


def load_longmemeval(items: list[Item], draft: SuiteDraft) -> None:
    """Adds LongMemEval: a scope for each question's history, a row for each turn.

    Relevant are the turns marked `has_answer`; where none is, those of the answer sessions; where those are not named
    either (samples that flatten the history), the turns that contain the answer's words. A question that must not be
    answered (`_abs`) has none.

    Source: Wu et al., ICLR 2025; xiaowu0162/LongMemEval, `longmemeval_s.json`, `_m` and `_oracle`.
    """
    for item in records(items, str(draft.source)):
        if "haystack_sessions" in item.values:
            _add_haystack(item, draft)
        else:
            _add_flat_history(item, draft)


def _add_haystack(item: Record, draft: SuiteDraft) -> None:
    scope, sessions = item.text("question_id"), item.items("haystack_sessions")
    names = item.items("haystack_session_ids", required=False) or list(range(len(sessions)))
    dates = item.items("haystack_dates", required=False) or [None] * len(sessions)
    for field, values in (("haystack_session_ids", names), ("haystack_dates", dates)):
        if len(values) != len(sessions):
            item.fail(
                field, f"has {len(values)} entries and haystack_sessions {len(sessions)}; there must be one for each"
            )
    answer_sessions = {str(s) for s in item.items("answer_session_ids", required=False)}
    marked, in_answer_sessions = [], []
    for number, (name, date, turns) in enumerate(zip(map(str, names), dates, sessions, strict=True)):
        field = f"haystack_sessions[{number}]"
        if not isinstance(turns, list):
            item.fail(field, "must be a list of turns")
        for i, turn in enumerate(item.objects(field, turns)):
            row_id = _add_turn(draft, f"{scope}:{number}:{i}", turn, scope, name, date)
            if turn.get("has_answer"):
                marked.append(row_id)
            if name in answer_sessions:
                in_answer_sessions.append(row_id)
    relevant = [] if scope.endswith("_abs") else marked or in_answer_sessions
    draft.add_query(scope, item.text("question"), relevant, str(item.get("question_type") or ""), scope)


def _add_flat_history(item: Record, draft: SuiteDraft) -> None:
    """Adds a sample of one list of turns: those of one date are a session."""
    scope, texts = item.text("id"), {}
    for i, turn in enumerate(item.children("conversation")):
        date = turn.get("date")
        row_id = _add_turn(draft, f"{scope}:{i}", turn, scope, _iso_time(date), date)
        texts[row_id] = _plain_words(turn.get("content"))
    for question in item.children("questions"):
        answer = _plain_words(question.get("answer"))
        relevant = [i for i, text in texts.items() if answer and f" {answer} " in f" {text} "]
        kind = str(item.get("question_type") or "")
        draft.add_query(f"{scope}:{question.text('id')}", question.text("question"), relevant, kind, scope)


def _add_turn(draft: SuiteDraft, row_id: str, turn: Record, scope: str, session: str | None, date: object) -> str:
    text, speaker = str(turn.get("content") or turn.get("text") or ""), turn.get("role") or turn.get("speaker")
    return draft.add_row(row_id, text, scope=scope, speaker=speaker, session=session, date_time=_iso_time(date))


def _iso_time(date: object) -> str | None:
    """Returns "2023-05-30 21:48" of "2023/05/30 (Tue) 21:48"."""
    # No date parser of the sources reads the day of the week.
    return _WEEKDAY.sub(" ", str(date)).replace("/", "-") if date else None


def _plain_words(text: object) -> str:
    return " ".join(re.findall(r"\w+", str(text or "").casefold()))
