"""LoCoMo and LongMemEval: long conversations, questions about them, and the turns that hold the answers."""

import re
from typing import Any

from palimpsest.eval.suites.loaders.layout import Layout

_LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN = re.compile(r"D:?(\d+):(\d+)")  # "D:11:26" and "D30:05" stand there too
_SESSION = re.compile(r"session_(\d+)")


def locomo(items: list[dict[str, Any]], out: Layout) -> None:
    """Fills the layout from LoCoMo: a scope for each conversation, a row for each turn.

    Source: Maharana et al., ACL 2024; the file `locomo10.json`.
    """
    for item in items:
        scope = str(item["sample_id"])
        talk = item["conversation"]
        for key in sorted((k for k in talk if _SESSION.fullmatch(k)), key=lambda k: int(k.split("_")[1])):
            for turn in talk[key]:
                out.row(
                    f"{scope}:{turn['dia_id']}",
                    str(turn.get("text") or ""),
                    scope=scope,
                    speaker=turn.get("speaker"),
                    session=key,
                    date_time=talk.get(f"{key}_date_time"),
                    image_caption=turn.get("blip_caption"),
                )
        for i, qa in enumerate(item["qa"]):
            turns = [f"{scope}:D{int(a)}:{int(b)}" for e in qa.get("evidence") or () for a, b in _TURN.findall(str(e))]
            kind = _LOCOMO_TYPES.get(qa.get("category"), str(qa.get("category") or ""))
            if any(t in out.rows for t in turns):
                out.query(f"{scope}:q{i}", str(qa["question"]), turns, kind, scope)


def longmemeval(items: list[dict[str, Any]], out: Layout) -> None:
    """Fills the layout from LongMemEval: a scope for each question's history, a row for each turn.

    Relevant are the turns marked `has_answer`; where none is, those of the answer sessions; where those are not named
    either (samples that flatten the history), the turns that hold the answer's words. A question that must not be
    answered (`_abs`) has none.

    Source: Wu et al., ICLR 2025; `longmemeval_s.json`, `_m` and `_oracle`.
    """
    for item in items:
        if "haystack_sessions" in item:
            _haystack(item, out)
        else:
            _flat(item, out)


def _haystack(item: dict[str, Any], out: Layout) -> None:
    scope = str(item["question_id"])
    sessions = item["haystack_sessions"]
    names = [str(s) for s in item.get("haystack_session_ids") or range(len(sessions))]
    dates = item.get("haystack_dates") or [None] * len(sessions)
    wanted = {str(s) for s in item.get("answer_session_ids") or ()}
    marked, inside = [], []
    for number, (name, date, turns) in enumerate(zip(names, dates, sessions, strict=True)):
        for i, turn in enumerate(turns):
            row_id = _turn(out, f"{scope}:{number}:{i}", turn, scope, name, date)
            if turn.get("has_answer"):
                marked.append(row_id)
            if name in wanted:
                inside.append(row_id)
    relevant = [] if scope.endswith("_abs") else marked or inside
    out.query(scope, str(item["question"]), relevant, str(item.get("question_type") or ""), scope)


def _flat(item: dict[str, Any], out: Layout) -> None:
    scope, said = str(item["id"]), {}
    for i, turn in enumerate(item["conversation"]):
        row_id = _turn(out, f"{scope}:{i}", turn, scope, None, turn.get("date"))
        said[row_id] = _plain(turn.get("content"))
    for asked in item["questions"]:
        answer = _plain(asked.get("answer"))
        relevant = [i for i, text in said.items() if answer and f" {answer} " in f" {text} "]
        kind = str(item.get("question_type") or "")
        out.query(f"{scope}:{asked['id']}", str(asked["question"]), relevant, kind, scope)


def _turn(out: Layout, row_id: str, turn: dict[str, Any], scope: str, session: str | None, date: Any) -> str:
    # "2023/05/30 (Tue) 21:48": the day of the week keeps it from being a date that everything reads.
    when = re.sub(r"\s*\([A-Za-z]+\)\s*", " ", str(date)).replace("/", "-") if date else None
    text, speaker = str(turn.get("content") or turn.get("text") or ""), turn.get("role") or turn.get("speaker")
    return out.row(row_id, text, scope=scope, speaker=speaker, session=session, date_time=when)


def _plain(text: Any) -> str:
    return " ".join(re.findall(r"\w+", str(text or "").casefold()))
