"""Recognizes a public data set by its shape and converts it to a suite, once per content and code of the loaders."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest_eval.metrics import json_rows, row_text
from palimpsest_eval.suites.loaders import beam_files, load_beam, load_beam_folder, load_beam_suite, load_memconflict
from palimpsest_eval.suites.record import Item, Record, SuiteDraft, content_row_id, records
from palimpsest_eval.suites.suite import qrels_rows

# Folders as BEIR distributes them: corpus.jsonl, queries.jsonl, and the judgements of each split under qrels/.

SPLITS = ("test", "dev", "train")


def load_beir(folder: Path, draft: SuiteDraft) -> None:
    """Adds a BEIR folder: the judgements of test, else dev, else train, and the queries they name.

    A negative score counts as 0, and a judgement of a row that is not in the corpus is ignored.

    Source: Thakur et al., NeurIPS 2021.

    Raises:
        PalimpsestError: a file is missing or not in the layout; the message names file and line.
    """
    for where, row in json_rows(folder / "corpus.jsonl"):
        title, text = str(row.get("title") or ""), row_text(row, "text", where, may_be_empty=True)
        if text.strip() or title.strip():
            draft.add_row(row_text(row, "_id", where), text, title)
    queries = {
        row_text(row, "_id", where): row_text(row, "text", where) for where, row in json_rows(folder / "queries.jsonl")
    }
    path = next((p for s in SPLITS if (p := folder / "qrels" / f"{s}.tsv").is_file()), None)
    if path is None:
        raise PalimpsestError(
            f"suite {folder}: qrels/ contains none of {', '.join(f'{s}.tsv' for s in SPLITS)}; add one"
        )
    grades: dict[str, dict[str, int]] = {}
    for where, query_id, corpus_id, score in qrels_rows(path, header="skipped"):
        if query_id not in queries:
            raise PalimpsestError(f"{where}: query {query_id!r} is not in queries.jsonl")
        grades.setdefault(query_id, {})[corpus_id] = max(score, 0)
    for query_id, relevant in grades.items():
        draft.add_query(query_id, queries[query_id], relevant)


# LoCoMo and LongMemEval: long conversations, questions about them, and the turns that contain the answers.

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


# LMEB: tasks of retrieving memories, each with the candidates of a scene.

CANDIDATES = "candidates.jsonl"
_WHOLE_CORPUS = "all"


def lmeb_files(folder: Path) -> list[Path]:
    """Returns the files of a task; the corpus and the candidates may be in the folder above, for several tasks."""
    shared = [_here_or_above(folder, name) for name in ("corpus.jsonl", CANDIDATES)]
    return [folder / "queries.jsonl", folder / "qrels.tsv", *shared]


def is_lmeb(folder: Path) -> bool:
    """Returns whether a folder is a task of LMEB."""
    return all(path.is_file() for path in lmeb_files(folder))


def _here_or_above(folder: Path, name: str) -> Path:
    above = folder.resolve().parent / name
    return above if not (folder / name).is_file() and above.is_file() else folder / name


def load_lmeb(folder: Path, draft: SuiteDraft) -> None:
    """Adds a task of LMEB: a scope for each set of candidates, with a row for each of them.

    A query belongs to the scene that has its id, or the first two parts of its id (`scene_3_q_0` to `scene_3`); where
    there is none, the whole corpus is searched. Scenes with the same candidates are one scope.

    Source: Zhao et al., arXiv 2603.12572; KaLM-Embedding/LMEB, `src/abstasks/`: `queries.jsonl` {id, text},
    `corpus.jsonl` {id, title, text}, `candidates.jsonl` {scene_id, candidate_doc_ids}, `qrels.tsv` without a header.

    Raises:
        PalimpsestError: a file is missing or not in the layout; the message names file, line and field.
    """
    queries, qrels, corpus, candidates = lmeb_files(folder)
    texts = {row.text("id"): (_plain(row, "title"), _plain(row, "text")) for row in _rows(corpus)}
    scenes = {
        r.text("scene_id"): tuple(dict.fromkeys(map(str, r.items("candidate_doc_ids")))) for r in _rows(candidates)
    }
    grades: dict[str, dict[str, int]] = {}
    for _, query_id, corpus_id, score in qrels_rows(qrels, header="none"):
        grades.setdefault(query_id, {})[corpus_id] = max(score, 0)
    scopes: dict[tuple[str, ...], str] = {}
    for query in _rows(queries):
        query_id = query.text("id")
        scene = next((s for s in (query_id, "_".join(query_id.split("_")[:2])) if s in scenes), None)
        pool = tuple(texts) if scene is None else scenes[scene]
        scope = scopes.get(pool)
        if scope is None:
            scope = scopes[pool] = scene or _WHOLE_CORPUS
            for doc in pool:
                if doc not in texts:
                    raise PalimpsestError(
                        f"{candidates.name}: candidate {doc!r} of scene {scene} is not in corpus.jsonl"
                    )
                title, text = texts[doc]
                draft.add_row(f"{scope}:{doc}", text, title, scope)
        relevant = {f"{scope}:{doc}": grade for doc, grade in grades.pop(query_id, {}).items()}
        draft.add_query(query_id, query.text("text"), relevant, scope=scope)
    if grades:
        raise PalimpsestError(f"{qrels.name}: query {min(grades)!r} is not in queries.jsonl ({folder})")


def _rows(path: Path) -> list[Record]:
    return [Record(row, where) for where, row in json_rows(path)]


def _plain(row: Record, name: str) -> str:
    return str(row.get(name) or "")


# HotpotQA, 2WikiMultihopQA and MuSiQue: the passages of all questions in one corpus, the supporting ones judged.


def load_hotpot(items: list[Item], draft: SuiteDraft) -> None:
    """Adds HotpotQA or 2WikiMultihopQA, in their own JSON or as a data hub's columns.

    Source: Yang et al., EMNLP 2018; Ho et al., COLING 2020. Relevant are the passages named by `supporting_facts`.
    """
    for item in items:
        context, facts = item["context"], item["supporting_facts"]
        if isinstance(context, dict):
            context = list(zip(context["title"], context.get("sentences") or context["content"], strict=True))
        titles = set(facts["title"]) if isinstance(facts, dict) else {fact[0] for fact in facts}
        relevant = []
        for title, sentences in context:
            text = "".join(sentences) if isinstance(sentences, list) else str(sentences)
            passage = draft.add_row(content_row_id(title, text), text.strip(), title)
            if title in titles:
                relevant.append(passage)
        draft.add_query(
            str(item.get("_id") or item["id"]), str(item["question"]), relevant, str(item.get("type") or "")
        )


def load_musique(items: list[Item], draft: SuiteDraft) -> None:
    """Adds MuSiQue; a question that its passages cannot answer has nothing relevant.

    Source: Trivedi et al., TACL 2022; `musique_ans_v1.0_*.jsonl`.
    """
    for item in items:
        relevant = []
        for p in item["paragraphs"]:
            text, title = str(p["paragraph_text"]), str(p.get("title") or "")
            passage = draft.add_row(content_row_id(title, text), text, title)
            if p.get("is_supporting") and item.get("answerable", True):
                relevant.append(passage)
        name = str(item["id"])
        draft.add_query(name, str(item["question"]), relevant, name.split("__")[0].rstrip("0123456789") or "")


Loader = Callable[[list[Item], SuiteDraft], None]

_LOADERS: tuple[tuple[str, frozenset[str], Loader], ...] = (
    ("LoCoMo", frozenset({"sample_id", "conversation", "qa"}), load_locomo),
    ("LongMemEval", frozenset({"question_id", "haystack_sessions", "question"}), load_longmemeval),
    ("LongMemEval", frozenset({"id", "conversation", "questions"}), load_longmemeval),
    ("BEAM", frozenset({"conversation_id", "chat", "probing_questions"}), load_beam),
    ("MemConflict", frozenset({"ID", "Full_Session_Chain"}), load_memconflict),
    ("MuSiQue", frozenset({"id", "paragraphs", "question"}), load_musique),
    ("HotpotQA or 2WikiMultihopQA", frozenset({"context", "supporting_facts", "question"}), load_hotpot),
)
"""(name, keys of one item, loader) of each data set in one file; the first whose keys are present reads it."""

_CODE = ("palimpsest_eval.suites.convert", "palimpsest_eval.suites.suite")
_BEIR_FILES = ("corpus.jsonl", "queries.jsonl")
_SUITE_FILES = (*_BEIR_FILES, "qrels.tsv")


def as_suite(path: Path, cache: Path, only: str | None = None) -> Path:
    """Returns the folder of a suite: `path` where it is one, else its conversion below `cache`.

    Args:
        path: a suite, a folder of BEIR, LMEB or BEAM, or a file of a known data set.
        cache: the folder of conversions.
        only: the one data set that is accepted, in its own shape or as a suite; None means any.

    Raises:
        PalimpsestError: `path` is none of them; the message names what it lacks.
    """
    if not path.exists():
        raise PalimpsestError(f"suite {path}: no such file or folder")
    parts, load = _file(path, only) if path.is_file() else _folder(path, only)
    if load is None:
        return path
    for part in parts:
        if not part.is_file():
            raise PalimpsestError(f"suite {path}: needs {part.name} ({part})")
    key = content_id(*map(file_hash, parts), only or "", code_hash(_CODE))
    name = path.resolve().stem if path.is_file() else path.resolve().name
    folder = cache / key / name
    if not folder.is_dir():
        draft = SuiteDraft(path)
        load(path, draft)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
            written = draft.write(Path(scratch) / name)
            if not folder.is_dir():
                shutil.move(written, folder)
    return folder


_Source = tuple[list[Path], Callable[[Path, SuiteDraft], None] | None]
"""The files of a data set, and what adds them to a draft; None where it is a suite already."""


def _folder(path: Path, only: str | None) -> _Source:
    """Returns the source of a folder.

    Raises:
        PalimpsestError: it is not of the data set that is accepted.
    """
    if is_lmeb(path) and only in (None, "LMEB"):
        return lmeb_files(path), load_lmeb
    if (path / "qrels.tsv").exists() and only != "LMEB":
        return [path / name for name in _SUITE_FILES], load_beam_suite if only == "BEAM" else None
    if (chats := beam_files(path)) and only in (None, "BEAM"):
        return chats, load_beam_folder
    if only == "LMEB":
        return lmeb_files(path), load_lmeb
    if only is not None:
        raise PalimpsestError(f"suite {path}: no {only}: the folder has none of its files, and no qrels.tsv of a suite")
    if (path / "qrels").is_dir():
        return [*(path / f for f in _BEIR_FILES), *sorted((path / "qrels").glob("*.tsv"))], load_beir
    return [], None


def _file(path: Path, only: str | None) -> _Source:
    return [path], partial(_load_file, only=only)


def _load_file(path: Path, draft: SuiteDraft, only: str | None) -> None:
    items = _read_items(path)
    keys = set(items[0])
    loaders = [entry for entry in _LOADERS if only in (None, entry[0])]
    known = next(((name, loader) for name, required, loader in loaders if required <= keys), None)
    if known is None:
        names = ", ".join(sorted({name for name, _, _ in _LOADERS})) + ", BEIR"
        wanted = " or ".join(", ".join(sorted(required)) for _, required, _ in loaders)
        lacks = f"not a known data set ({names})" if only is None else f"no {only}: an item must have {wanted}"
        raise PalimpsestError(f"suite {path}: {lacks}; its items have {', '.join(sorted(keys)[:8])}")
    name, loader = known
    try:
        loader(items, draft)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as e:
        raise PalimpsestError(f"suite {path}: looks like {name}, but an item lacks or breaks {str(e)[:80]}") from None


def _read_items(path: Path) -> list[Item]:
    """Reads a JSON array, an object with the array under `data`, JSONL, or a Parquet table of a data hub.

    Raises:
        PalimpsestError: it is none of these, or has no objects.
    """
    if path.suffix == ".parquet":
        return _read_parquet(path)
    try:
        text = path.read_text(encoding="utf-8")
        try:
            value = json.loads(text)
        except ValueError:
            value = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (OSError, ValueError, RecursionError) as e:
        raise PalimpsestError(f"suite {path}: not JSON or JSONL ({str(e)[:80]})") from None
    if isinstance(value, dict):
        value = value["data"] if isinstance(value.get("data"), list) else [value]
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise PalimpsestError(f"suite {path}: must be a list of JSON objects")
    return value


def _read_parquet(path: Path) -> list[Item]:
    import polars as pl

    try:
        items = pl.read_parquet(path).to_dicts()
    except (pl.exceptions.PolarsError, OSError) as e:
        raise PalimpsestError(f"suite {path}: no readable Parquet table ({str(e)[:80]})") from None
    if not items:
        raise PalimpsestError(f"suite {path}: the table has no row")
    return items
