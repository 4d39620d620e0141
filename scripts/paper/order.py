"""Compares the order of the methods with the paper's, pair by pair, and lists what was measured beside it."""

import statistics
from dataclasses import dataclass

from scipy.stats import spearmanr

from .published import perplexity_of, title_of
from .sweeps import METHODS, PAPER_LAMBDA, TRANSPORT

EVEN = 0.1  # the paper prints in bold what is better by more than 0.1
PAIRS = (("dotresize", "magnitude"), ("slicegpt", "dotresize"), ("pca_dotresize", "slicegpt"))  # as most often in the paper


def relation(first, second):
    """-1 if the first perplexity is less, 1 if it is more, 0 if they are within EVEN."""
    difference = first - second
    return 0 if abs(difference) <= EVEN else -1 if difference < 0 else 1


@dataclass(frozen=True)
class PairOrder:
    """Two methods at one width reduction."""

    sparsity: float
    pair: tuple
    perplexities: tuple
    by_relation: dict  # the paper's models, by relation

    @property
    def relation(self):
        return relation(*self.perplexities)

    @property
    def as_in_paper(self):
        return bool(self.by_relation.get(self.relation))

    def sentence(self):
        words = {-1: "below", 0: "within 0.1 of", 1: "above"}
        (a, b), (x, y) = self.pair, self.perplexities
        everywhere = len(self.by_relation) == 1 and len(next(iter(self.by_relation.values()))) > 1
        paper = "; ".join(
            f"{words[r]} it with {'all of its models' if everywhere else ', '.join(map(title_of, self.by_relation[r]))}"
            for r in sorted(self.by_relation)
        )
        verdict = "" if self.as_in_paper else " **Not so in the paper.**"
        return f"{a} ({x:.2f}) is {words[self.relation]} {b} ({y:.2f}).{verdict} In the paper it is {paper}."


def compare_pairs(sparsity, perplexities, models):
    """The pairs of which both sides have figures. `perplexities` by method."""
    for pair in PAIRS:
        published = {model: [perplexity_of(model, sparsity, method) for method in pair] for model in models}
        if None in [x for both in published.values() for x in both] or not set(pair) <= perplexities.keys():
            continue
        by_relation = {}
        for model, both in published.items():
            by_relation.setdefault(relation(*both), []).append(model)
        yield PairOrder(sparsity, pair, tuple(perplexities[method] for method in pair), by_relation)


def ranking(perplexities):
    """"slicegpt < pca_dotresize < ...", best first."""
    return " < ".join(sorted(perplexities, key=perplexities.get))


def perplexities_at(results, sparsity):
    """Perplexities of the methods that are done, with the paper's lambda."""
    found = {name: results.perplexity(name=name, sparsity=sparsity, **{"lambda": PAPER_LAMBDA}) for name in METHODS}
    return {name: value for name, value in found.items() if value is not None}


def mean_retained_energy(report):
    return statistics.mean(j["retained_energy"] for j in report["junctions"] if j["mapped"])


@dataclass(frozen=True)
class EnergyRow:
    sparsity: float
    method: str
    lam: float | None
    energy: float  # mean over the junctions
    perplexity: float


def energy_rows(results, sparsities, lambdas):
    """All methods, those with transport with each lambda."""
    settings = [(name, value) for name in METHODS for value in (lambdas if name in TRANSPORT else [None])]
    for sparsity in sparsities:
        for method, value in settings:
            if row := results.row(name=method, sparsity=sparsity, **({"lambda": value} if value else {})):
                energy = mean_retained_energy(results.report(row))
                yield EnergyRow(sparsity, method, value, energy, row["perplexity"])


def reason(rows):
    """Compares slicegpt and pca_dotresize at one width reduction, as far as they were measured."""
    sliced = [row for row in rows if row.method == "slicegpt"]
    merged = [row for row in rows if row.method == "pca_dotresize"]
    if not sliced or not merged:
        return None
    best = min(merged, key=lambda row: row.perplexity)
    base = sliced[0].perplexity
    text = f"slicegpt keeps {100 * sliced[0].energy:.2f} % of the activations' energy, which is the most "
    text += f"that a map of this width can keep, pca_dotresize {100 * min(r.energy for r in merged):.2f} to "
    text += f"{100 * max(r.energy for r in merged):.2f} %. "
    both = sliced + merged
    if len(both) > 2:
        correlation = spearmanr([r.energy for r in both], [r.perplexity for r in both]).statistic
        text += f"Over these {len(both)} models the rank correlation of energy and perplexity is {correlation:+.2f}. "
    below = relation(best.perplexity, base) < 0
    text += f"Of the lambdas {best.lam:g} is best for pca_dotresize, with {best.perplexity:.2f}: "
    return text + ("below slicegpt." if below else "none brings it more than 0.1 below slicegpt.")
