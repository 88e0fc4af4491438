"""Reranks by a cross-encoder of sentence-transformers: question and text are read together."""

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.core.errors import PalimpsestError, first_line_of, missing_extra

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_BATCH = 32


class CrossEncoderReranker:
    """A cross-encoder of a folder, or of a name on the Hugging Face Hub.

    Weights are read from safetensors alone and code that comes with a model is never run: a pickle or a module from
    elsewhere could do anything.
    """

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """See Reranker."""
        return self._name

    def score(self, question: str, texts: Sequence[str]) -> np.ndarray:
        """See Reranker; what the model predicts for each pair, truncated to what it reads.

        Raises:
            PalimpsestError: the model cannot be loaded, or has not one output.
        """
        with self._lock:
            scores = self._model.predict(
                [(question, text) for text in texts], batch_size=_BATCH, show_progress_bar=False
            )
        return np.asarray(scores, np.float64)

    @cached_property
    def _model(self) -> "CrossEncoder":
        try:
            from sentence_transformers import CrossEncoder
            from transformers.utils import logging

            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            model: CrossEncoder = CrossEncoder(
                self._name, device="cpu", trust_remote_code=False, model_kwargs={"use_safetensors": True}
            )
        except ModuleNotFoundError as e:
            raise missing_extra(e, "build") or e from None
        except (OSError, ValueError, KeyError) as e:
            reason = first_line_of(e)
            raise PalimpsestError(
                f"reranker: {self._name} cannot be loaded ({reason}); give the folder or the name of a cross-encoder"
                " with safetensors weights, or lm"
            ) from None
        if model.num_labels != 1:
            raise PalimpsestError(f"reranker: {self._name} has {model.num_labels} outputs; give a model that has one")
        return model
