"""Compares perplexities with those of an independent implementation of the method (tests/data/golden.json)."""

import json
import os
import subprocess

import harness
import pytest

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


def measured_perplexity(output):
    """Returns the perplexity that `dotresize-worker eval` measures for a model directory."""
    command = [harness.WORKER, "eval", output, "--tokens", harness.EVALUATION, "-o", "json"]
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
def test_golden_perplexity(case, statistics, tmp_path):
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
        **kept,
    )
    report = harness.run_to_report(spec, tmp_path)

    if in_job:
        compressed = report["compressed"]["perplexity"]
        assert report["dense"]["perplexity"] == pytest.approx(case["dense_perplexity"], rel=1e-4)
    else:
        compressed = measured_perplexity(tmp_path / "out")
    assert compressed == pytest.approx(case["perplexity"], rel=GOLDEN["tolerance"])


PROTOTYPES = {"metric of the loss": ({"width": 200, "metric": "fisher"}, 27.93)}
if ALL_CASES:
    PROTOTYPES["narrower MLPs"] = ({"width": 224, "format": "stock", "mlp": {"width": 640}}, 29.13)


@pytest.mark.parametrize("method, expected", PROTOTYPES.values(), ids=PROTOTYPES)
def test_perplexity_is_that_of_a_prototype(method, expected, tmp_path):
    """The tolerance is a hundredth of the increase."""
    method = {"name": "slicegpt", **method}
    harness.run_to_report(
        harness.job(tmp_path / "out", method=method, ranks=2, evaluate=False), tmp_path
    )
    dense = GOLDEN["cases"][0]["dense_perplexity"]
    assert measured_perplexity(tmp_path / "out") == pytest.approx(
        expected, abs=0.01 * (expected - dense)
    )


def test_names_of_cases_are_right():
    assert set(MEASURED_IN_JOB) | set(MORE_CASES) <= {case["name"] for case in GOLDEN["cases"]}
