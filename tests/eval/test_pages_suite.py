import csv
import json

from palimpsest.query.embed_query import count_tokens
from palimpsest_eval.studies.pages_suite import page_spans, write_suite
from palimpsest_eval.suites.suite import load_suite

TEXT = "\n\n".join(
    f"Paragraph {i} is about the mill of Varn, and says how it ran in the year {1900 + i}." for i in range(40)
)


def test_pages_are_whole_paragraphs_up_to_a_number_of_tokens_and_leave_no_word_out():
    pages = [TEXT[a:b] for a, b in page_spans(TEXT, 200)]
    assert len(pages) > 3 and all(count_tokens(p) <= 200 and p.startswith("Paragraph") for p in pages)
    assert " ".join(" ".join(pages).split()) == " ".join(TEXT.split())
    assert page_spans("one two", 200) == [(0, 7)] and page_spans(" \n", 200) == []


def test_a_suite_of_pages_states_which_words_of_which_page_answer(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "mill.md").write_text(TEXT)
    answers = ["Paragraph 3 is about the mill of Varn, and says how it ran in the year 1903.", "in the year 1939."]
    references = [{"start_index": TEXT.index(a), "end_index": TEXT.index(a) + len(a)} for a in answers]
    with (folder / "questions_df.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "references", "corpus_id"])
        rows.writerow(["How did it run?", json.dumps(references), "mill"])
    pages, questions = write_suite(folder, tmp_path / "suite", 200)
    suite = load_suite(tmp_path / "suite")
    assert (pages, questions) == (len(page_spans(TEXT, 200)), 1) == (len(suite.scopes), len(suite.judged))
    assert suite.evidence["q000"] == (("mill-000", answers[0]), (f"mill-{pages - 1:03}", answers[1]))
    assert suite.relevant("q000") == {"mill-000", f"mill-{pages - 1:03}"}
