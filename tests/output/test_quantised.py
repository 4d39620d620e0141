"""Tests of models whose weights are stored in 8 or 4 bits: they are read as what they stand for in bfloat16."""

import json
import os
import subprocess

import pytest
import torch
from forking import MODELS, forking_python
from running import VERSIONS, WORKER, keys_of, report_of, run_worker, score_all
from safetensors.torch import save_file
from tiny_models import random_dense, tensors_of, tiny_keys
from transformers import AutoModelForCausalLM
from transformers.integrations import mxfp4

IDS = torch.randint(2, 97, (16, 32), generator=torch.Generator().manual_seed(5))
FLOAT8, INT8 = torch.float8_e4m3fn, torch.int8


def compressed_tensors(kind, strategy, **weights):
    weights = {"num_bits": 8, "type": kind, "strategy": strategy, "symmetric": True, "dynamic": False} | weights
    return {
        "quant_method": "compressed-tensors", "format": f"{kind}-quantized", "ignore": ["lm_head"], "kv_cache_scheme": None,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}},
    }  # fmt: skip


def fp8(block, **more):
    return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": block, **more}


# quantization_config, dtype of weights, numbers that share a scale (0: all), ending of the scale's name, dtype of scales
FORMS = {
    "fp8-blocks": (fp8([8, 16]), FLOAT8, (8, 16), "_scale_inv", torch.float32),
    "fp8-whole": (fp8(None, activation_scheme="static"), FLOAT8, (0, 0), "_scale_inv", torch.bfloat16),
    "float-channels": (compressed_tensors("float", "channel"), FLOAT8, (1, 0), "_scale", torch.bfloat16),
    "float-whole": (compressed_tensors("float", "tensor"), FLOAT8, (0, 0), "_scale", torch.float32),
    "int-channels": (compressed_tensors("int", "channel"), INT8, (1, 0), "_scale", torch.float32),
}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
QUANTISED = {form: FORMS[form][0]["quant_method"] for form in FORMS} | {"mxfp4": "mxfp4"}


def spread(scales, block, shape):
    """Returns the scale of each number."""
    rows, columns = (size or whole for size, whole in zip(block, shape, strict=True))
    return scales.repeat_interleave(rows, 0)[: shape[0]].repeat_interleave(columns, 1)[:, : shape[1]]


def quantised(weight, dtype, block, scale_dtype):
    """Returns a weight in 8 bits with its scales, and what both stand for."""
    rows, columns = (size or whole for size, whole in zip(block, weight.shape, strict=True))
    parts = [[part.abs().max() for part in rows_.split(columns, 1)] for rows_ in weight.split(rows)]
    most = 448 if dtype == FLOAT8 else 127
    scales = (torch.tensor(parts) / most).to(scale_dtype)
    wide = spread(scales.float(), block, weight.shape)
    stored = (weight / wide).clamp(-most, most)
    stored = stored.round().to(dtype) if dtype == INT8 else stored.to(dtype)
    return stored, scales, (stored.float() * wide).bfloat16()


def write_models(folder, form):
    """Writes "FORM", a quantised model, and "FORM-16", what it stands for in bfloat16. One layer is not quantised."""
    config, dtype, block, ending, scale_dtype = FORMS[form]
    random_dense(tiny_keys("llama", torch_dtype="bfloat16")).bfloat16().save_pretrained(folder / f"{form}-16")
    (folder / form).mkdir()
    tensors, plain = {}, tensors_of(folder / f"{form}-16")
    for name, tensor in list(plain.items()):
        tensors[name] = tensor
        if not name.endswith("_proj.weight") or "layers.1." in name:
            continue
        tensors[name], scales, plain[name] = quantised(tensor.float(), dtype, block, scale_dtype)
        tensors[name + ending] = scales.flatten()[:1].reshape([] if ending == "_scale_inv" else [1]) if block == (0, 0) else scales
        if config.get("activation_scheme") == "static":
            tensors[name.removesuffix("weight") + "activation_scale"] = torch.ones([])
    save_file(plain, folder / f"{form}-16" / "model.safetensors", metadata={"format": "pt"})
    save_file(tensors, folder / form / "model.safetensors", metadata={"format": "pt"})
    (folder / form / "config.json").write_text(json.dumps(keys_of(folder / f"{form}-16") | {"quantization_config": config}))


def packed(weight):
    """Returns weights [experts, in, out] in pairs of 4 bits, the exponents of each 32 of a row of `in`, and what both stand for."""
    blocks = weight.mT.unflatten(-1, (-1, 32))  # [experts, out, blocks, 32]
    exponents = blocks.abs().amax(-1).log2().floor().int() - 2
    values = torch.tensor(mxfp4.FP4_VALUES)
    codes = (torch.ldexp(blocks, -exponents[..., None]).unsqueeze(-1) - values).abs().argmin(-1).byte()
    pairs, scales = codes[..., ::2] | codes[..., 1::2] << 4, (exponents + 127).byte()
    return pairs, scales, mxfp4.convert_moe_packed_tensors(pairs, scales)


def write_mxfp4(folder):
    """Writes "mxfp4" and "mxfp4-16", likewise."""
    keys = tiny_keys("gpt_oss", hidden_size=64, intermediate_size=96, torch_dtype="bfloat16")
    random_dense(keys).bfloat16().save_pretrained(folder / "mxfp4-16")
    (folder / "mxfp4").mkdir()
    plain = tensors_of(folder / "mxfp4-16")
    tensors = dict(plain)
    for name in [name for name in plain if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        del tensors[name]
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"], plain[name] = packed(plain[name].float())
    save_file(plain, folder / "mxfp4-16" / "model.safetensors", metadata={"format": "pt"})
    save_file(tensors, folder / "mxfp4" / "model.safetensors", metadata={"format": "pt"})
    (folder / "mxfp4" / "config.json").write_text(json.dumps(keys_of(folder / "mxfp4-16") | {"quantization_config": MXFP4}))


def job_of(folder, source, out):
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    return {
        "name": out, "model": {"path": str(folder / source)}, "output": {"path": str(folder / out)}, "method": {"size": 0.8, "round_to": 1},
        "calibration": tokens, "evaluation": tokens, "resources": {"ranks": 2},
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantised")
    save_file({"tokens": IDS}, folder / "tokens.safetensors")
    write_mxfp4(folder)
    for form in FORMS:
        write_models(folder, form)
    for form in QUANTISED:
        for name in (form, f"{form}-16"):
            run_worker(folder, job_of(folder, name, f"{name}-out"), ranks=2)
    return folder


@pytest.mark.parametrize("form", QUANTISED)
def test_the_output_is_that_of_the_model_in_16_bits(folder, form):
    output, expected = folder / f"{form}-out", folder / f"{form}-16-out"
    assert tensors_of(output).keys() == tensors_of(expected).keys()
    for name, tensor in tensors_of(expected).items():
        assert tensor.dtype == torch.bfloat16 and torch.equal(tensors_of(output)[name], tensor), name
    assert keys_of(output) == keys_of(expected) and "quantization_config" not in keys_of(output)
    report, plain = report_of(output), report_of(expected)
    for model in ("dense", "compressed"):
        assert (report[model]["bytes"], report[model]["perplexity"]) == (plain[model]["bytes"], plain[model]["perplexity"])
    assert report["quantised_source"] == QUANTISED[form] and "quantised_source" not in plain
    assert not report["warnings"]
    subprocess.run([WORKER, "verify", output, "--against", folder / form, "--tokens", folder / "tokens.safetensors"], check=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_measures_the_reported_perplexities(folder, version):
    tokens = folder / "tokens.safetensors"
    reports = [report_of(folder / f"{form}-out") for form in QUANTISED]
    assert score_all(version, [folder / f"{form}-16" for form in QUANTISED], tokens) == pytest.approx(
        [report["dense"]["perplexity"] for report in reports], rel=1e-5
    )
    assert score_all(version, [folder / f"{form}-out" for form in QUANTISED], tokens) == pytest.approx(
        [report["compressed"]["perplexity"] for report in reports], rel=1e-5
    )


@pytest.mark.parametrize("form", ["fp8-blocks", "mxfp4"])
def test_eval_measures_a_source_in_transformers_too(folder, form):
    environment = os.environ | {"DOTRESIZE_PYTHON": forking_python(MODELS)}
    tokens = folder / "tokens.safetensors"
    command = [WORKER, "eval", folder / form, "--tokens", tokens, "--runtime", "transformers", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    expected = report_of(folder / f"{form}-out")["dense"]["perplexity"]
    assert json.loads(done.stdout)["models"][0]["perplexity"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", ["fp8-blocks", "fp8-whole", "mxfp4"])
def test_transformers_reads_the_same_weights(folder, form):
    read, expected = (AutoModelForCausalLM.from_pretrained(folder / name, dtype="auto").state_dict() for name in (form, f"{form}-16"))
    assert read.keys() == expected.keys() and all(torch.equal(read[name], expected[name]) for name in expected)
