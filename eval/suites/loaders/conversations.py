"""LoCoMo and LongMemEval: long conversations, questions about them, and the turns that contain the answers."""

import re

from palimpsest.eval.suites.loaders.suite_draft import Item, SuiteDraft

_LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN = re.compile(r"D:?(\d+):(\d+)")  # "D:11:26" and "D30:05" occur too
_SESSION = re.compile(r"session_(\d+)")
_WEEKDAY = re.compile(r"(?:(?<!\s)\s++)?\([A-Za-z]++\)\s*+")


def load_locomo(items: list[Item], draft: SuiteDraft) -> None:
    """Adds LoCoMo: a scope for each conversation, a row for each turn.

    Source: Maharana et al., ACL 2024; the file `locomo10.json`.
    """
    for item in items:
        scope = str(item["sample_id"])
        conversation = item["conversation"]
        for key in sorted((k for k in conversation if _SESSION.fullmatch(k)), key=lambda k: int(k.split("_")[1])):
            for turn in conversation[key]:
                draft.add_row(
                    f"{scope}:{turn['dia_id']}",
                    str(turn.get("text") or ""),
                    scope=scope,
                    speaker=turn.get("speaker"),
                    session=key,
                    date_time=conversation.get(f"{key}_date_time"),
                    image_caption=turn.get("blip_caption"),
                )
        for i, qa in enumerate(item["qa"]):
            turns = [f"{scope}:D{int(a)}:{int(b)}" for e in qa.get("evidence") or () for a, b in _TURN.findall(str(e))]
            kind = _LOCOMO_TYPES.get(qa.get("category"), str(qa.get("category") or ""))
            if any(t in draft.rows for t in turns):
                draft.add_query(f"{scope}:q{i}", str(qa["question"]), turns, kind, scope)


def load_longmemeval(items: list[Item], draft: SuiteDraft) -> None:
    """Adds LongMemEval: a scope for each question's history, a row for each turn.

    Relevant are the turns marked `has_answer`; where none is, those of the answer sessions; where those are not named
    either (samples that flatten the history), the turns that contain the answer's words. A question that must not be
    answered (`_abs`) has none.

    Source: Wu et al., ICLR 2025; `longmemeval_s.json`, `_m` and `_oracle`.
    """
    for item in items:
        if "haystack_sessions" in item:
            _add_haystack(item, draft)
        else:
            _add_flat_history(item, draft)


def _add_haystack(item: Item, draft: SuiteDraft) -> None:
    scope = str(item["question_id"])
    sessions = item["haystack_sessions"]
    names = [str(s) for s in item.get("haystack_session_ids") or range(len(sessions))]
    dates = item.get("haystack_dates") or [None] * len(sessions)
    answer_sessions = {str(s) for s in item.get("answer_session_ids") or ()}
    marked, in_answer_sessions = [], []
    for number, (name, date, turns) in enumerate(zip(names, dates, sessions, strict=True)):
        for i, turn in enumerate(turns):
            row_id = _add_turn(draft, f"{scope}:{number}:{i}", turn, scope, name, date)
            if turn.get("has_answer"):
                marked.append(row_id)
            if name in answer_sessions:
                in_answer_sessions.append(row_id)
    relevant = [] if scope.endswith("_abs") else marked or in_answer_sessions
    draft.add_query(scope, str(item["question"]), relevant, str(item.get("question_type") or ""), scope)


def _add_flat_history(item: Item, draft: SuiteDraft) -> None:
    scope, texts = str(item["id"]), {}
    for i, turn in enumerate(item["conversation"]):
        row_id = _add_turn(draft, f"{scope}:{i}", turn, scope, None, turn.get("date"))
        texts[row_id] = _plain_words(turn.get("content"))
    for question in item["questions"]:
        answer = _plain_words(question.get("answer"))
        relevant = [i for i, text in texts.items() if answer and f" {answer} " in f" {text} "]
        kind = str(item.get("question_type") or "")
        draft.add_query(f"{scope}:{question['id']}", str(question["question"]), relevant, kind, scope)


def _add_turn(draft: SuiteDraft, row_id: str, turn: Item, scope: str, session: str | None, date: object) -> str:
    # "2023/05/30 (Tue) 21:48": no date parser of the sources reads the day of the week.
    time = _WEEKDAY.sub(" ", str(date)).replace("/", "-") if date else None
    text, speaker = str(turn.get("content") or turn.get("text") or ""), turn.get("role") or turn.get("speaker")
    return draft.add_row(row_id, text, scope=scope, speaker=speaker, session=session, date_time=time)


def _plain_words(text: object) -> str:
    return " ".join(re.findall(r"\w+", str(text or "").casefold()))
