"""Tests of `size` alone with models of all families, in which some features, value channels and whole sublayers do nothing."""

import itertools
import subprocess

import pytest
import torch
from narrowed_models import ONE_PER_FAMILY, SOURCES
from narrowing import tensors_of, with_layer_sizes
from running import VERSIONS, WORKER, keys_of, report_of, run_worker, score_all
from safetensors.torch import save_file

IDS = torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(5))
SIZES, DIMS = [20, 0, 7], [0, 12, 5]  # features and value channels of each layer that do something


def number_of(tensors):
    return sum(tensor.numel() for tensor in tensors.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes for each family "source", "expected", which lacks all that does nothing, and "out", a job's output of that size."""
    folder = tmp_path_factory.mktemp("sizes")
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    save_file({"tokens": IDS}, folder / "tokens.safetensors")
    for family in ONE_PER_FAMILY:
        source, expected = folder / family / "source", folder / family / "expected"
        with_layer_sizes(expected, SOURCES[family], SIZES, DIMS).save_pretrained(source)
        job = {
            "name": "size",
            "model": {"path": str(source)},
            "output": {"path": str(folder / family / "out"), "dtype": "float32"},
            "method": {"size": round(number_of(tensors_of(expected)) / number_of(tensors_of(source)) + 1e-6, 6), "round_to": 1},
            "calibration": tokens,
            "evaluation": tokens,
            "resources": {"ranks": 2},
        }
        run_worker(folder / family, job, ranks=2)
    return folder


@pytest.mark.parametrize("family", ONE_PER_FAMILY)
def test_what_does_nothing_goes_and_all_else_stays(folder, family):
    output, tensors = folder / family / "out", tensors_of(folder / family / "out")
    expected = tensors_of(folder / family / "expected")
    assert {name: tensor.shape for name, tensor in tensors.items()} == {name: tensor.shape for name, tensor in expected.items()}
    source = tensors_of(folder / family / "source")
    assert all(torch.equal(tensors[name], source[name]) for name in tensors if tensors[name].shape == source[name].shape)
    keys, written = keys_of(folder / family / "expected"), keys_of(output)
    for key in ("architectures", "auto_map", "model_type", "source_model_type", "intermediate_sizes", "value_head_dims", "norm_weights"):
        assert written[key] == keys[key]
    report = report_of(output)
    assert (report["allocation"]["features"], report["allocation"]["value_head_dims"]) == (SIZES, DIMS)
    assert report["compressed"]["perplexity"] == pytest.approx(report["dense"]["perplexity"], rel=1e-5)
    assert [file.name for file in output.glob("*.py")] == ["modeling_layer_sizes.py"]
    verify = [WORKER, "verify", output, "--against", folder / family / "source", "--tokens", folder / "tokens.safetensors"]
    subprocess.run(verify, check=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_measures_the_reported_perplexity(folder, version):
    outputs = [folder / family / "out" for family in ONE_PER_FAMILY]
    reported = [report_of(output)["compressed"]["perplexity"] for output in outputs]
    assert score_all(version, outputs, folder / "tokens.safetensors") == pytest.approx(reported, rel=1e-5)
    assert all(one != another for one, another in itertools.pairwise(reported))
