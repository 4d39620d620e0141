"""The perplexities of an independent implementation of the method (tests/data/golden.json)."""

import json

import pytest

import harness

GOLDEN = json.loads((harness.ROOT / "tests" / "data" / "golden.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_golden_perplexity(case, tmp_path):
    method = dict(case["method"])
    activations = method.pop("activations")
    spec = harness.job(
        tmp_path / "out", method=method, activations=activations, ranks=case["ranks"]
    )
    report = harness.run_to_report(spec, tmp_path)

    bound = GOLDEN["tolerance"]
    assert report["compressed"]["perplexity"] == pytest.approx(case["perplexity"], rel=bound)
    assert report["dense"]["perplexity"] == pytest.approx(case["dense_perplexity"], rel=1e-4)
