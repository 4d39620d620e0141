"""Compares perplexities with those of an independent implementation of the method (tests/data/golden.json)."""

import json
import os
import subprocess

import harness
import pytest
from safetensors.torch import load_file, save_file

GOLDEN = json.loads((harness.ROOT / "tests" / "data" / "golden.json").read_text())
# Jobs that measure both perplexities themselves. The outputs of the others are evaluated afterwards, so that the dense model is
# not measured again for each.
MEASURED_IN_JOB = ("pca_dotresize-200-original",)
# One width per basis is enough every day; compressed activations and a shared map need one method. DOTRESIZE_ALL_CASES=1 runs
# these cases too.
ALL_CASES = bool(os.environ.get("DOTRESIZE_ALL_CASES"))
MORE_CASES = (
    "magnitude-200-original",
    "magnitude-176-original",
    "dotresize-200-original",
    "dotresize-176-original",
    "slicegpt-200-original",
    "pca_dotresize-176-original",
    "magnitude-176-compressed",
    "magnitude-200-compressed",
    "dotresize-200-compressed",
    "slicegpt-176-compressed",
    "slicegpt-200-compressed",
    "pca_dotresize-176-compressed",
    "pca_dotresize-200-compressed",
    "magnitude-208-shared",
    "dotresize-208-shared",
    "slicegpt-208-shared",
    "dotresize-200-lambda0.01",
    "dotresize-200-lambda10",
    "dotresize-200-lambda1",
)
CASES = [
    case
    for case in GOLDEN["cases"]
    if ALL_CASES or case["name"] not in MORE_CASES
]


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    """Returns the tokens that outputs are evaluated with: 16 windows every day. Their perplexities are what transformers measured for
    outputs whose perplexity over all 64 windows is that of the independent implementation, within 1e-7."""
    if ALL_CASES:
        return harness.EVALUATION
    path = tmp_path_factory.mktemp("tokens") / "evaluation.safetensors"
    save_file({"tokens": load_file(harness.EVALUATION)["tokens"][:16].clone()}, path)
    return path


def measured_perplexity(output, tokens):
    """Returns the perplexity that `dotresize-worker eval` measures for a model directory."""
    command = [harness.WORKER, "eval", output, "--tokens", tokens, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (model,) = json.loads(done.stdout)["models"]
    return model["perplexity"]


@pytest.fixture(scope="module")
def statistics(tmp_path_factory):
    """Shares statistics of the dense model between methods: the first job of dotresize and that of pca_dotresize save them.
    Jobs write the same bytes with them (test_statistics.py)."""
    folder = tmp_path_factory.mktemp("statistics")

    def of(name, activations, format="any", **others):
        path = folder / ("pca" if name in ("pca_dotresize", "slicegpt") else "identity")
        saves = name in ("pca_dotresize", "dotresize")
        if activations != "original" or format != "any" or not (saves or path.exists()):
            return {}
        return {"calibration": {"statistics": {"use" if path.exists() else "save": str(path)}}}

    return of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_perplexity(case, statistics, evaluation, tmp_path):
    method = dict(case["method"])
    kept = statistics(**method)
    activations = method.pop("activations")
    in_job = case["name"] in MEASURED_IN_JOB
    spec = harness.job(
        tmp_path / "out",
        method=method,
        activations=activations,
        ranks=case["ranks"],
        evaluate=in_job,
        **({"evaluation": {"kl": False}} if in_job else {}),
        **kept,
    )
    report = harness.run_to_report(spec, tmp_path)

    if in_job:
        compressed = report["compressed"]["perplexity"]
        assert report["dense"]["perplexity"] == pytest.approx(case["dense_perplexity"], rel=1e-4)
    else:
        compressed = measured_perplexity(tmp_path / "out", evaluation)
    of_all = in_job or ALL_CASES
    expected = case["perplexity" if of_all else "perplexity_of_16_windows"]
    assert compressed == pytest.approx(expected, rel=GOLDEN["tolerance"])


# Method, perplexity and tolerance, a hundredth of the increase. The perplexity over 16 windows is that of an output that has the
# prototype's over all.
PROTOTYPES = {"metric of the loss": ({"width": 200, "metric": "fisher"}, 27.93 if ALL_CASES else 28.633, 0.0189)}
if ALL_CASES:
    PROTOTYPES["narrower MLPs"] = ({"width": 224, "format": "stock", "mlp": {"width": 640}}, 29.13, 0.0309)


@pytest.mark.parametrize("method, expected, tolerance", PROTOTYPES.values(), ids=PROTOTYPES)
def test_perplexity_is_that_of_a_prototype(method, expected, tolerance, evaluation, tmp_path):
    method = {"name": "slicegpt", **method}
    harness.run_to_report(
        harness.job(tmp_path / "out", method=method, ranks=2, evaluate=False), tmp_path
    )
    assert measured_perplexity(tmp_path / "out", evaluation) == pytest.approx(expected, abs=tolerance)


def test_names_of_cases_are_right():
    assert set(MEASURED_IN_JOB) | set(MORE_CASES) <= {case["name"] for case in GOLDEN["cases"]}
