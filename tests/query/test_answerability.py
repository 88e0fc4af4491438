"""Do results hold an answer: what is asked, what the results have of it, and what a search does then."""

import datetime as dt

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.query import Scope, open_home
from palimpsest.query.answerability.evidence import Evidence, gather_evidence
from palimpsest.query.answerability.model import AnswerabilityModel, answerability_model
from palimpsest.query.answerability.question_form import QuestionForm
from palimpsest.query.present import results_text
from palimpsest.query.request.search_request import SearchRequest
from palimpsest.query.request.types import Memory
from palimpsest.text.terms import terms
from tests.query.made import at, home, memory, tables

ANA = Scope("notes", "ana")
MADE = [
    memory("m1", "The launch moved to Friday.", observed_at=at("2024-02-01")),
    memory("m2", "Honey from the market costs 9 euros a jar."),
    memory("m3", "Bram repairs the bicycles on Tuesdays."),
    memory("b1", "Zaphod keeps the keys.", user_id="ben"),
]


def result(text: str, **fields: object) -> Memory:
    return Memory(memory_id="m", collection="notes", user_id="ana", text=text, **fields)


def evidence(question: str, *texts: str, elsewhere: str = "", observed: str = "2024-01-01"):
    observed_at = dt.datetime.fromisoformat(observed)
    known = terms(" ".join([*texts, elsewhere]))
    frequency = {t: known.count(t) for t in known}
    results = [result(t, observed_at=observed_at) for t in texts]
    return gather_evidence(QuestionForm.of(question), results, frequency, 50)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    with open_home(home(tmp_path_factory.mktemp("home"), tables(MADE))) as reader:
        yield reader


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the launch?", "time"),
        ("On which day is the launch?", "time"),
        ("Who repairs the bicycles?", "name"),
        ("How old is Bram?", "age"),
        ("What does a jar cost?", "money"),
        ("How high is the tower?", "length"),
        ("How much does Bram weigh?", "weight"),
        ("What is the telephone number of Bram?", "phone"),
        ("How many bicycles are there?", "number"),
        ("Why did Bram leave?", "reason"),
        ("Which landlord is it?", "name"),
        ("From which dealer did we buy the bicycle?", "name"),
        ("What deposit did I pay?", "money"),
        ("Which fee has been paid by the club?", "money"),
        ("Which shelf is it?", ""),
        ("What did we decide?", ""),
    ],
)
def test_the_form_of_a_question_gives_the_type_of_its_answer(question, answer):
    assert QuestionForm.of(question).answer == answer


def test_names_ids_and_years_are_told_from_other_words():
    form = QuestionForm.of("Which lawyer of Marlow Press signed PO-5512 in 2024?")
    assert form.names == ("marlow", "press", "po-5512", "2024") and form.years == ("2024",)
    assert form.words == ("lawyer", "signed") and form.nouns == {"lawyer"}


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        ("Who repairs the bicycles?", 1),
        ("What is the name of Bram's cousin?", 1),
        ("Who taught the woman who painted the waterfall?", 2),
        ("How high is the birthplace of the designer of the bridge?", 2),
        ("What is pictured on the beer from the firm of the man behind the line that Bram's son drew?", 3),
    ],
)
def test_a_question_takes_a_step_for_each_clause_and_for_each_further_of(question, steps):
    assert QuestionForm.of(question).steps == steps


def test_a_question_points_back_where_a_pronoun_stands_for_what_it_does_not_name():
    assert QuestionForm.of("Which club does he play for?").points_back
    assert QuestionForm.of("How many of them are left?").is_bare
    assert not QuestionForm.of("Which club does Bram play for, and since when does he?").points_back
    assert not QuestionForm.of("How long does it take to move a gateway?").points_back


def test_a_name_that_no_memory_has_is_out_of_reach_and_one_of_another_id_too():
    assert evidence("What does Zaphod repair?", "Bram repairs bicycles.").out_of_reach == 1.0
    assert evidence("What does Bram repair?", "Bram repairs bicycles.").out_of_reach == 0.0
    assert evidence("What was ordered under PO-5600?", "Bram ordered 12 under PO-5512.").out_of_reach == 1.0


def test_the_plural_of_a_known_name_is_within_reach():
    assert evidence("Which of the two Jonases bakes?", "Jonas Feld bakes.", elsewhere="Jonas").out_of_reach == 0.0


def test_a_year_must_be_that_of_the_best_sentences():
    old = "What was the rent in 1999?"
    assert evidence(old, "The rent is 790 euros.", elsewhere="1999").year_apart == 1.0
    assert evidence(old, "The rent is 790 euros.", observed="1999-05-01").year_apart == 0.0
    assert evidence(old, "In 1999 the rent was 600 euros.").year_apart == 0.0
    assert evidence("What was the rent of the flat in 1999?", "The flat has a rent.", "Cats of 1999.").year_apart == 1.0
    assert evidence("Who directs the garden today?", "From 1878 Osk directed the garden.").year_apart == 1.0
    assert evidence("Who directs the garden today?", "Osk directs the garden.").year_apart == 0.0


def test_a_pronoun_alone_and_what_was_before_point_back():
    assert evidence("What did he say about it?", "The rent is 790 euros.").points_back == 1.0
    assert evidence("Who lived in the flat before Felix?", "Felix lived in the flat.").points_back == 1.0
    assert evidence("What happens with quotes made before June?", "Quotes made in June are kept.").points_back == 0.0


def test_the_answer_must_be_of_the_type_and_not_said_by_the_question():
    assert evidence("What does the honey cost?", "The honey costs 9 euros.").no_specific_type == 0.0
    assert evidence("What does the honey cost?", "The honey is sold on Sundays.").no_specific_type == 1.0
    assert evidence("Who repairs the bicycles of Bram?", "The bicycles of Bram.").no_type_near == 1.0
    assert evidence("Who repairs the bicycles of Bram?", "The warden repairs the bicycles of Bram.").no_type_near == 0.0
    near = evidence("What does the honey cost?", "The honey costs 9 euros.")
    far = evidence("What does the honey cost?", "The honey is sold on Sundays.", "The flat has a rent of 790 euros.")
    assert (far.no_type_near, near.no_type_within) == (1.0, 0.0) and far.no_type_within > 1.0


def test_a_question_of_two_steps_is_read_from_two_sentences():
    two = evidence("Who taught the woman who painted the mill?", "The woman painted the mill.", "Bram taught her.")
    one = evidence("Who taught the woman and painted the mill?", "The woman painted the mill.", "Bram taught her.")
    assert one.words_best < two.words_best


def test_words_like_those_of_the_question_count_by_their_likeness():
    like = evidence("How much is the rent of the flat?", "The apartment costs 790 euros.")
    other = evidence("How much is the rent of the flat?", "The violin sounds fine.")
    assert other.words_best == 0.0 < like.words_best < 1.0


def test_evidence_of_nothing_and_of_a_question_without_words_is_finite():
    for question in ("Who?", "???", "It", "When is the launch?"):
        for texts in ((), ("",), ("...",), ("The launch is on Friday.",)):
            assert all(abs(v) < 100 for v in evidence(question, *texts).to_dict().values())


def test_a_model_names_what_speaks_against_an_answer():
    model = AnswerabilityModel({"out_of_reach": -3.0}, {"out_of_reach": 0.0}, 1.0, 0.5)
    low = model.judge(evidence("What does Zaphod repair?", "Bram repairs bicycles."))
    assert not low.is_answerable and low.probability == pytest.approx(0.1192, abs=1e-4)
    assert low.text.startswith("answerable with probability 0.12, below 0.50: a name")
    assert model.judge(evidence("What does Bram repair?", "Bram repairs bicycles.")).against == ()
    assert model.judge(None).probability == 0.0


def test_every_answer_says_how_likely_it_is_one_and_abstaining_returns_nothing_but_why(reader):
    good = reader.search("Who repairs the bicycles?", ANA)
    bad = reader.search("What is the telephone number of Zaphod?", ANA)
    assert good.answerability.is_answerable and not bad.answerability.is_answerable and bad.memories
    assert good.to_json()["answerable"] is True and bad.to_json()["answerable"] is False
    assert 0 <= bad.to_json()["answer_probability"] < good.to_json()["answer_probability"] <= 1
    assert bad.to_json()["abstained"] is None
    kept = reader.search("Who repairs the bicycles?", ANA, abstain=True)
    assert [m.memory_id for m in kept.memories] == [m.memory_id for m in good.memories] and not kept.abstained
    none = reader.search("What is the telephone number of Zaphod?", ANA, abstain=True, history=True, explain=True)
    assert (none.memories, none.context, none.packed_ids, none.beside) == ([], "", (), ())
    assert none.abstained and none.to_json()["abstained"].startswith("answerable with probability")
    assert "without --abstain" in results_text(none)


def test_another_users_names_are_as_unknown_as_any(reader):
    asked = {n: reader.search(f"What does {n} keep?", ANA).answerability.evidence for n in ("Zaphod", "Quirinus")}
    assert asked["Zaphod"] == asked["Quirinus"]


def test_nothing_found_is_no_answer(reader):
    nobody = reader.search("Who repairs the bicycles?", Scope("notes", "nobody"), abstain=True)
    assert nobody.answerability.probability == 0.0 and nobody.abstained


def test_explain_says_the_probability(reader):
    found = reader.search("Who repairs the bicycles?", ANA, explain=True)
    assert "answerable with probability" in results_text(found, explain=True)
    assert "answerable" not in results_text(found)


def test_abstain_is_a_field_of_a_request():
    assert SearchRequest.from_json({"text": "x", "abstain": True}, ANA).abstain
    with pytest.raises(PalimpsestError, match="abstain"):
        SearchRequest.from_json({"text": "x", "abstain": "yes"}, ANA)


def test_the_shipped_model_weighs_each_number_of_the_evidence():
    assert answerability_model().coefficients.keys() == Evidence().to_dict().keys()
