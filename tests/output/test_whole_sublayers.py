"""Tests of `size` alone with models of all families, in which some features, value channels and whole sublayers do nothing, and with
mixtures in which no token chooses some of the experts."""

import itertools
import re
import subprocess

import pytest
import torch
from layer_sizes import with_layer_sizes
from narrowed_models import ONE_PER_FAMILY, SOURCES, load, logits
from running import VERSIONS, WORKER, keys_of, report_of, run_worker, score_all
from safetensors.torch import save_file
from tiny_models import random_dense, tensors_of, tiny_keys

IDS = torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(5))
RANKS = {"llama": 2, "mixtral-sliding": 2, "qwen2_moe": 2, "gpt_oss": 2}  # a second rank costs as much as the job
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
            "resources": {"ranks": RANKS.get(family, 1)},
        }
        run_worker(folder / family, job, ranks=RANKS.get(family, 1))
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


MIXTURES = {
    "mixtral": tiny_keys("mixtral", num_local_experts=6),
    "qwen3_moe": tiny_keys("qwen3_moe", num_experts=8, norm_topk_prob=False),
    "qwen2_moe": tiny_keys("qwen2_moe", num_experts=8),
    "glm4_moe": tiny_keys("glm4_moe", n_routed_experts=10),
    "gpt_oss": tiny_keys("gpt_oss", num_local_experts=6),
}
# Experts that no token chooses, by layer. The groups of a glm4_moe have five experts each, and lose equally many.
UNUSED = {
    "mixtral": {0: [1, 4], 1: [], 2: [0, 3, 5]},
    "qwen3_moe": {0: [0, 1, 7], 2: [3]},
    "qwen2_moe": {0: [2], 2: [0, 5, 6]},
    "glm4_moe": {1: [1, 7], 2: [0, 3, 5, 9]},
    "gpt_oss": {0: [0], 1: [2, 5], 2: [1]},
}
UNUSED_ALIKE = {
    "mixtral": {0: [1, 4], 1: [0, 5], 2: [3, 5]},
    "qwen3_moe": {0: [0, 7], 2: [3, 4]},
    "qwen2_moe": {0: [2, 6], 2: [0, 5]},
    "glm4_moe": {1: [1, 7], 2: [0, 9]},
    "gpt_oss": {0: [0, 4], 1: [2, 5], 2: [1, 3]},
}
KEYS = {"mixtral": "num_local_experts", "qwen3_moe": "num_experts", "qwen2_moe": "num_experts", "glm4_moe": "n_routed_experts",
        "gpt_oss": "num_local_experts"}  # fmt: skip
MIXTURE_CASES = [(family, form) for family in MIXTURES for form in ("any", "stock")]
EXPERT = re.compile(r"(model\.layers\.(\d+)\..*experts\.)(\d+)(\..*)")
ROWS = re.compile(r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe)\.(?:gate\..*|router\..*|experts\.\w+)")  # one for each expert


def unused_of(family, form):
    return (UNUSED if form == "any" else UNUSED_ALIKE)[family]


@torch.no_grad()
def with_unused_experts(keys, unused):
    """Returns a model whose first channel is the same in every token. By that channel its routers leave the unused experts out."""
    model = random_dense(keys)
    model.get_input_embeddings().weight[:, 0] = 0.5
    of_input = keys["model_type"] == "gpt_oss"  # whose experts are [input, output]
    for name, parameter in model.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            parameter.select(-1 if name.endswith("bias") or (of_input and "down_proj" in name) else -2, 0).zero_()
    for layer, experts in unused.items():
        mlp = model.model.layers[layer].mlp
        router = mlp.router if of_input else mlp.gate
        router.weight[:, 0] = 0.0
        router.weight[experts] = 0.0
        router.weight[experts, 0] = -1000.0
        if hasattr(router, "e_score_correction_bias"):
            router.e_score_correction_bias[experts] = -10.0
    return model


def without_experts(tensors, unused):
    """Returns the tensors by their names in a model of the other experts."""
    left = {}
    for name, tensor in tensors.items():
        if expert := EXPERT.fullmatch(name):
            layer, number = int(expert[2]), int(expert[3])
            gone = unused.get(layer, [])
            if number in gone:
                continue
            name = f"{expert[1]}{number - sum(other < number for other in gone)}{expert[4]}"
        elif rows := ROWS.fullmatch(name):
            gone = unused.get(int(rows[1]), [])
            tensor = tensor[[number for number in range(len(tensor)) if number not in gone]]
        left[name] = tensor
    return left


def job_of(folder, output, form, expected):
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    size = number_of(expected) / number_of(tensors_of(folder / "source"))
    return {
        "name": output,
        "model": {"path": str(folder / "source")},
        "output": {"path": str(folder / output), "dtype": "float32", "format": form},
        "method": {"size": round(size + 1e-6, 6), "round_to": 1},
        "calibration": tokens,
        "evaluation": tokens,
    }


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """Makes for each case "source" and "out", the output of a job for as many bytes as the source has without unused experts."""
    root = tmp_path_factory.mktemp("experts")
    for family, form in MIXTURE_CASES:
        folder = root / f"{family}-{form}"
        with_unused_experts(MIXTURES[family], unused_of(family, form)).save_pretrained(folder / "source")
        save_file({"tokens": IDS}, folder / "tokens.safetensors")
        expected = without_experts(tensors_of(folder / "source"), unused_of(family, form))
        run_worker(folder, job_of(folder, "out", form, expected), ranks=RANKS.get(family, 1) if form == "any" else 1)
    return root


@pytest.mark.parametrize("family, form", MIXTURE_CASES)
def test_unused_experts_go_and_all_else_stays(mixtures, family, form):
    folder = mixtures / f"{family}-{form}"
    unused = unused_of(family, form)
    tensors = tensors_of(folder / "out")
    expected = without_experts(tensors_of(folder / "source"), unused)
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in tensors)
    report = report_of(folder / "out")
    of_layers = [MIXTURES[family][KEYS[family]] - len(unused[layer]) if layer in unused else 0 for layer in range(3)]
    assert report["allocation"]["experts"] == of_layers
    assert [mlp.get("experts", 0) for mlp in report["mlps"]] == of_layers
    assert report["compressed"]["perplexity"] == pytest.approx(report["dense"]["perplexity"], rel=1e-6)
    assert report["compressed"]["kl"] < 1e-6
    assert not any("chosen" in warning for warning in report["warnings"])
    keys = keys_of(folder / "out")
    if form == "any":
        assert keys["expert_counts"] == of_layers and keys[KEYS[family]] == MIXTURES[family][KEYS[family]]
        assert keys["output_router_logits"] is False
    else:
        assert "expert_counts" not in keys and keys[KEYS[family]] == max(of_layers)
        assert not list((folder / "out").glob("*.py"))
    tokens = ["--tokens", folder / "tokens.safetensors"]
    subprocess.run([WORKER, "verify", folder / "out", "--against", folder / "source", *tokens], check=True)


@pytest.mark.parametrize("family, form", MIXTURE_CASES)
def test_the_logits_are_those_of_the_source(mixtures, family, form):
    folder = mixtures / f"{family}-{form}"
    source, output = load(folder / "source"), load(folder / "out")
    assert type(output).__name__.removeprefix("DotResize") == type(source).__name__
    torch.testing.assert_close(logits(output, IDS), logits(source, IDS), atol=1e-5, rtol=0)


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_measures_the_perplexity_of_fewer_experts(mixtures, version):
    for form in ("any", "stock"):
        outputs = [mixtures / f"{family}-{form}" / "out" for family in MIXTURES]
        reported = [report_of(output)["compressed"]["perplexity"] for output in outputs]
        tokens = mixtures / f"mixtral-{form}" / "tokens.safetensors"
        assert score_all(version, outputs, tokens) == pytest.approx(reported, rel=1e-5)


def test_what_is_left_is_healed(mixtures):
    folder = mixtures / "qwen2_moe-any"
    job = {**job_of(folder, "healed", "any", tensors_of(folder / "out")), "heal": {"epochs": 1}}
    job["method"]["size"] -= 0.1  # some of the used experts go, too
    output = run_worker(folder, job, ranks=2)
    heal = report_of(output)["heal"]
    assert sum(layer["healed_error"] for layer in heal["layers"]) < sum(layer["folded_error"] for layer in heal["layers"])
    assert max(report_of(output)["allocation"]["experts"]) < 8
    subprocess.run([WORKER, "verify", output], check=True)


@pytest.mark.parametrize("ranks", [1, 3])
def test_any_number_of_ranks_writes_the_same_tensors(mixtures, ranks):
    folder = mixtures / "qwen2_moe-any"
    expected = tensors_of(folder / "out")
    job = job_of(folder, f"ranks-{ranks}", "any", expected)
    found = tensors_of(run_worker(folder, job, ranks))
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)
