"""HotpotQA, 2WikiMultihopQA and MuSiQue: the passages of all questions in one corpus, the supporting ones judged."""

from palimpsest_eval.suites.loaders.suite_draft import Item, SuiteDraft, content_row_id


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
