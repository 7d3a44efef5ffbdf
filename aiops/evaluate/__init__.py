"""Is the answer right? Reports against labelled truth, and the bundled incidents that carry it."""

from aiops.evaluate.score import score
from aiops.evaluate.truth import Truth, load_truth
from aiops.evaluate.variants import VARIANTS, Variant, load_variants, materialise

__all__ = ["VARIANTS", "Truth", "Variant", "load_truth", "load_variants", "materialise", "score"]
