"""Is the answer right? Reports against labelled truth."""

from aiops.evaluate.score import score
from aiops.evaluate.truth import Truth, load_truth

__all__ = ["Truth", "load_truth", "score"]
