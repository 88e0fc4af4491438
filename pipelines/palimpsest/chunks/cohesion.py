"""How much two neighbouring stretches of text speak of the same things, by the words they share."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[^\W\d_]{3,}|\d[\d.,]*")
_STEM_CHARS = 6
_WINDOW_TOKENS = 120


class Cohesion:
    """Cosine of the weighted words before and after each boundary between the pieces of one document.

    Words are cut to six letters, which serves as a stem in many languages, and weigh less the more pieces hold them.
    After Hearst, TextTiling (1997), with inverse piece frequency in place of a stop list.
    """

    def __init__(self, texts: Sequence[str], tokens: Sequence[int]) -> None:
        """Takes the texts of the pieces in order, and their sizes."""
        self._tokens = tokens
        self._words = [Counter(w[:_STEM_CHARS] for w in _WORD.findall(t.lower())) for t in texts]
        frequency = Counter(w for words in self._words for w in words)
        count = len(texts)
        self._weight = {w: math.log((count + 1) / f) for w, f in frequency.items()}

    def before(self, index: int) -> float:
        """Returns the cohesion, 0 to 1, of the boundary before piece `index`; 0 where one side has no words."""
        left = self._side(range(index - 1, -1, -1))
        right = self._side(range(index, len(self._words)))
        dot = sum(v * right[w] for w, v in left.items() if w in right)
        norm = math.sqrt(sum(v * v for v in left.values()) * sum(v * v for v in right.values()))
        return dot / norm if norm else 0.0

    def _side(self, indices: range) -> dict[str, float]:
        counts: Counter[str] = Counter()
        size = 0
        for i in indices:
            if size >= _WINDOW_TOKENS:
                break
            counts.update(self._words[i])
            size += self._tokens[i]
        return {w: (1 + math.log(n)) * self._weight[w] for w, n in counts.items()}
