import pytest

from palimpsest.text.languages import detect_language, question_languages


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("La impresora de la oficina se atasca con el papel reciclado.", "es"),
        ("Der Drucker im Büro staut sich bei Umweltpapier.", "de"),
        ("The printer in the office jams on recycled paper.", "en"),
        ("邮箱的密码每九十天就要换一次。", "zh"),  # fastText's model takes it for Japanese
        ("メールのパスワードは九十日ごとに切れます。", "ja"),
        ("사무실 프린터는 재생지에서 걸립니다.", "ko"),
        ("Принтер в офисе зажёвывает переработанную бумагу.", "ru"),
    ],
)
def test_the_language_of_a_sentence_is_known(text, language):
    assert detect_language(text) == language


@pytest.mark.parametrize(
    "text", ["", "So?", "Your gut?", "See ya Nate!", "3.14159 2,718 1,414", "Um , I {disfmarker} I {vocalsound} um"]
)
def test_what_is_too_short_has_no_language(text):
    assert detect_language(text) is None


def test_a_question_is_read_in_its_own_language_where_the_texts_have_it_else_in_all():
    assert question_languages("Where did I leave the spare keys of the flat?", ["en", "es"]) == ("en",)
    assert question_languages("¿Dónde dejé las llaves de repuesto del piso?", ["en", "es"]) == ("es",)
    assert question_languages("Wo habe ich die Ersatzschlüssel hingelegt?", ["en", "es"]) == ("en", "es")
    assert question_languages("Carlos?", ["en", "es"]) == ("en", "es")
    assert question_languages("Where did I leave the spare keys of the flat?", ["es"]) == ("es",)
    assert question_languages("¿Dónde?", []) == ("en",)
