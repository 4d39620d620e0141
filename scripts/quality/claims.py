"""The claims that the table tests: half of the loss is gone at equal bytes, and no family is worse for it."""

from dataclasses import dataclass

from .measure import Row
from .recipes import RECIPES

OF_THE_PAPER = {recipe.name for recipe in RECIPES if recipe.paper}
BASELINES = {recipe.name for recipe in RECIPES if recipe.drops_layers}


def least(rows):
    return min(rows, key=lambda row: row.perplexity, default=None)


def is_ours(row):
    return row.recipe not in OF_THE_PAPER | BASELINES


@dataclass(frozen=True)
class Comparison:
    """The best of the paper's methods, or of slicegpt, and the best of ours at a size."""

    before: Row
    ours: Row
    dense: float

    @property
    def share(self):
        """The increase of perplexity that is left."""
        return (self.ours.perplexity - self.dense) / (self.before.perplexity - self.dense)

    @property
    def halves(self):
        return self.share <= 0.5

    @property
    def no_worse(self):
        return self.ours.perplexity <= self.before.perplexity

    @property
    def no_further(self):
        """True if ours diverges no more from the dense model."""
        return self.ours.kl <= self.before.kl


def compare(results, model, size, recipes, method=None):
    """Compares the best of these recipes; None unless there are rows of both. method: the only one of the paper's that counts."""
    rows = [row for row in results.of(model, size=size) if row.recipe in recipes]
    before = least([row for row in rows if row.recipe in OF_THE_PAPER and method in (None, row.method)])
    ours = least([row for row in rows if is_ours(row)])
    return before and ours and Comparison(before, ours, results.dense[model].perplexity)
