"""The smallest peer: counts common words. It needs no other package, so tests run the whole comparison with it."""

from collections.abc import Sequence

from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text


class WordOverlapPeer(BasePeer):
    """All texts in one dictionary; what changed is found by comparing words."""

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self._texts: dict[str, Text] = {}

    def warm_up(self) -> None:
        """Does nothing: no text is embedded."""

    def build(self, texts: Sequence[Text]) -> None:
        """Stores the texts."""
        self._texts |= {text.text_id: text for text in texts}
        lines = (text.words + "\n" for text in self._texts.values())
        (self.setting.folder / "texts.txt").write_text("".join(lines), encoding="utf-8")

    def rebuild(self, texts: Sequence[Text]) -> None:
        """Stores the texts that are not stored in these words."""
        self.build([text for text in texts if self._texts.get(text.text_id) != text])

    def search(self, question: Question, k: int) -> list[str]:
        """Returns the texts with the most words of the question; ties by id."""
        words = set(question.text.lower().split())
        scores = {
            text.text_id: len(words & set(text.words.lower().split()))
            for text in self._texts.values()
            if text.scope == question.scope
        }
        return sorted(scores, key=lambda i: (-scores[i], i))[:k]


open_peer = WordOverlapPeer
