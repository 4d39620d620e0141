"""Tests of jobs whose junctions share one map. Their outputs are stock models."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from running import DATA, EXAMPLE, ROOT, VERSIONS, WORKER, keys_of, report_of, run_python, run_worker, score_all
from safetensors.torch import load_file, save_file
from tiny_models import ROTARY_SOURCES, random_dense, tensors_of, tiny_keys
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

# output.dtype and output.architecture
KINDS = {
    "stock-float32": ("float32", "auto"),
    "stock-bfloat16": ("bfloat16", "source"),
}
# model_type and architecture
STOCK = {
    "stock-float32": ("mistral", "MistralForCausalLM"),
    "stock-bfloat16": ("llama", "LlamaForCausalLM"),
}


def as_text(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout


@pytest.fixture(scope="module")
def outputs(tmp_path_factory, evaluation):
    folder = tmp_path_factory.mktemp("jobs")
    return {
        name: run_worker(
            folder,
            {
                "name": name,
                "model": {"path": str(EXAMPLE)},
                "output": {"path": str(folder / name), "dtype": dtype, "format": "stock", "architecture": architecture},
                "method": {"name": "pca_dotresize", "width": 208, "allow_larger": True},
                "calibration": {"tokens": str(DATA / "calibration.safetensors"), "samples": 8},
                "evaluation": {"tokens": str(evaluation)},
                "resources": {"ranks": 3},
            },
            ranks=3,
        )
        for name, (dtype, architecture) in KINDS.items()
    }


@pytest.mark.parametrize("kind", STOCK)
def test_a_stock_output_is_a_model_of_a_family(outputs, kind):
    directory = outputs[kind]
    keys = keys_of(directory)
    family, architecture = STOCK[kind]
    assert (keys["model_type"], keys["architectures"]) == (family, [architecture])
    named = report_of(directory)["output"].get("model_type")
    assert named == (family if family != "llama" else None)
    assert ("calls it a `mistral`" in (directory / "README.md").read_text()) == (named is not None)
    assert (keys["hidden_size"], keys["head_dim"]) == (208, 32)
    assert "auto_map" not in keys
    assert not list(directory.glob("*.py"))
    assert "trust_remote_code" not in (directory / "README.md").read_text()
    norms = [tensor for name, tensor in tensors_of(directory).items() if "norm" in name]
    assert len(norms) == 13
    dtype = getattr(torch, KINDS[kind][0])
    expected = torch.full((208,), math.sqrt(256 / 208)).to(dtype)
    assert all(torch.equal(norm, expected) for norm in norms)


def test_weights_of_a_stock_model_are_spread_over_its_channels(outputs):
    """Kurtosis of the weights: mean fourth power over squared mean square. Normally distributed numbers have 3."""
    matrices = [tensor for tensor in tensors_of(outputs["stock-float32"]).values() if tensor.ndim == 2]
    fourth_powers = [((matrix**4).mean() / matrix.square().mean() ** 2).item() for matrix in matrices]
    assert sum(fourth_powers) / len(fourth_powers) < 6, fourth_powers


def test_an_allocated_stock_model_is_one_of_its_family(tmp_path, evaluation):
    job = {
        "name": "allocated",
        "model": {"path": str(EXAMPLE)},
        "output": {"path": str(tmp_path / "out"), "format": "stock", "dtype": "float32"},
        "method": {"size": 1.6, "allow_larger": True},
        "calibration": {
            "tokens": str(DATA / "calibration.safetensors"),
            "samples": 4,
            "seqlen": 128,
        },
        "evaluation": {"tokens": str(evaluation), "seqlen": 512},
    }
    directory = run_worker(tmp_path, job, ranks=2)
    report = report_of(directory)
    keys = keys_of(directory)
    assert keys["model_type"] == "llama" and not list(directory.glob("*.py"))
    assert keys["hidden_size"] == 256
    assert set(report["allocation"]["features"]) == {keys["intermediate_size"]}
    assert keys["intermediate_size"] < 768
    assert report["compressed"]["parameters"] <= 0.8 * report["dense"]["parameters"]
    expected = pytest.approx([report["compressed"]["perplexity"]], rel=1e-3)
    assert score_all("5", [directory], evaluation) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_those_of_the_files(outputs, evaluation, kind):
    tensors = tensors_of(outputs[kind])
    parameters = sum(tensor.numel() for tensor in tensors.values())
    report = report_of(outputs[kind])
    assert report["compressed"]["parameters"] == parameters
    assert report["compressed"]["bytes"] == sum(t.nbytes for t in tensors.values())
    verified = json.loads(as_text([WORKER, "verify", outputs[kind], "-o", "json"]))
    assert verified["ok"] and verified["parameters"] == parameters
    command = [WORKER, "eval", outputs[kind], "--tokens", evaluation, "-o", "json"]
    (evaluated,) = json.loads(as_text(command))["models"]
    assert evaluated["parameters"] == parameters
    assert evaluated["perplexity"] == pytest.approx(report["compressed"]["perplexity"], rel=1e-5)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_measures_the_reported_perplexity(outputs, evaluation, kind, version):
    script = ROOT / "scripts" / "load_and_score.py"
    measured = float(run_python(version, script, outputs[kind], evaluation))
    reported = report_of(outputs[kind])["compressed"]["perplexity"]
    assert measured == pytest.approx(reported, rel=1e-3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_generates(outputs, kind, version):
    program = Path(__file__).parent / "check_generation.py"
    result = json.loads(run_python(version, program, outputs[kind]))
    assert result["transformers"].startswith(version + ".")
    assert result["class"] == STOCK[kind][1]
    assert result["unloaded"] == result["unexpected"] == []
    assert result["together"] == result["alone"] == result["without_cache"]


# Source and output.dtype. The norms' eps is large, so that a wrong one shows.
SOURCES = {
    "llama-biases-tied": (
        tiny_keys("llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
        "float32",
    ),
    "mistral-sliding-wide-heads": (
        tiny_keys("mistral", sliding_window=7, head_dim=20, rms_norm_eps=0.1),
        "float32",
    ),
    "phi3-partial-sliding": (
        tiny_keys(
            "phi3",
            pad_token_id=None,
            partial_rotary_factor=0.5,
            sliding_window=7,
            rms_norm_eps=0.1,
        ),
        "float32",
    ),
    "qwen2-tied": (tiny_keys("qwen2", tie_word_embeddings=True, rms_norm_eps=0.1), "float32"),
    "qwen3-wide-heads": (tiny_keys("qwen3", head_dim=20, rms_norm_eps=0.1), "bfloat16"),
    "qwen3-biases": (tiny_keys("qwen3", attention_bias=True, rms_norm_eps=0.1), "float32"),
    "granite-tied": (
        tiny_keys(
            "granite",
            tie_word_embeddings=True,
            embedding_multiplier=3.0,
            logits_scaling=1.7,
            residual_multiplier=0.4,
            attention_multiplier=0.2,
            rms_norm_eps=0.1,
        ),
        "float32",
    ),
    "seed_oss-output-bias": (tiny_keys("seed_oss", attention_out_bias=True, rms_norm_eps=0.1), "float32"),
    "smollm3-window-of-a-layer": (
        tiny_keys(
            "smollm3", no_rope_layers=[0, 1, 1], use_sliding_window=True, sliding_window=7, rms_norm_eps=0.1
        ),
        "float32",
    ),
    "mixtral": (tiny_keys("mixtral", rms_norm_eps=0.1), "float32"),
    "qwen3_moe-biases-wide-heads": (
        tiny_keys("qwen3_moe", attention_bias=True, head_dim=20, rms_norm_eps=0.1),
        "float32",
    ),
    "qwen3-longrope": (ROTARY_SOURCES["qwen3-longrope"], "float32"),
}
IDS = torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(5))


RANKS = {"granite-tied": 2, "phi3-partial-sliding": 2, "qwen3_moe-biases-wide-heads": 2}  # a second rank costs as much as the job


def run_random(folder, source, output, ranks=1, **method):
    """Returns the stock output of a job for a random model. Calibration and evaluation use the same tokens."""
    keys, dtype = SOURCES[source]
    if not (folder / "dense").exists():
        random_dense(keys).save_pretrained(folder / "dense")
        save_file({"tokens": IDS}, folder / "tokens.safetensors")
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    job = {
        "name": output,
        "model": {"path": str(folder / "dense")},
        "output": {"path": str(folder / output), "dtype": dtype, "format": "stock"},
        "method": {"allow_larger": True, **method},
        "calibration": tokens,
        "evaluation": tokens,
        "resources": {"ranks": ranks},
    }
    return run_worker(folder, job, ranks=ranks)


def load(directory):
    has_code = any(directory.glob("modeling_*.py"))
    return AutoModelForCausalLM.from_pretrained(
        directory, trust_remote_code=has_code, torch_dtype=torch.float32
    ).eval()


@torch.no_grad()
def logits_of(directory):
    return load(directory)(IDS[:2]).logits


@torch.no_grad()
def logits_in_subspace(dense, stock):
    """Returns logits of the dense model with all writers to the stream limited to the span of the one map M: its table, o_proj
    and down_proj are followed by M·Mᵀ. The stock model's table is E·M up to a rotation of M."""
    model = load(dense)
    table = model.get_input_embeddings().weight
    M = torch.linalg.lstsq(table, load(stock).get_input_embeddings().weight).solution
    Q, _ = torch.linalg.qr(M)
    projector = Q @ Q.T
    table.copy_(table @ projector)
    for name, parameter in model.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            parameter.copy_(projector @ parameter)
    return model(IDS[:2]).logits


@pytest.mark.parametrize("source", [s for s, (_, dtype) in SOURCES.items() if dtype == "float32"])
def test_a_stock_model_of_full_width_gives_the_dense_logits(tmp_path, source):
    directory = run_random(tmp_path, source, "full", name="pca_dotresize", width=48)
    torch.testing.assert_close(
        logits_of(directory), logits_of(tmp_path / "dense"), atol=1e-4, rtol=0
    )


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """Makes stock models of each source with narrower MLPs and experts."""
    method = {"name": "slicegpt", "width": 40, "mlp": {"sparsity": 0.25}}
    return {
        source: run_random(tmp_path_factory.mktemp(source), source, "stock", **method) for source in SOURCES
    }


@pytest.mark.parametrize("source", SOURCES)
def test_a_narrow_stock_model_says_what_is_left(narrow, source):
    stock = narrow[source]
    keys = keys_of(stock)
    source_keys = SOURCES[source][0]
    assert keys["model_type"] == source_keys["model_type"]
    assert keys["intermediate_size"] == 56  # dense: 80
    if "moe_intermediate_size" in source_keys:
        assert keys["moe_intermediate_size"] == 16  # dense: 28
    assert not list(stock.glob("*.py"))
    assert keys["tie_word_embeddings"] == source_keys.get("tie_word_embeddings", False)


@pytest.mark.parametrize("source", SOURCES)
def test_a_narrow_stock_model_is_the_dense_one_in_a_subspace(tmp_path, source):
    stock = run_random(tmp_path, source, "stock", ranks=RANKS.get(source, 1), name="slicegpt", width=40)
    expected = logits_in_subspace(tmp_path / "dense", stock)
    difference = (logits_of(stock) - expected).abs()
    if SOURCES[source][1] == "float32":
        assert difference.max() < 1e-4
    else:
        assert difference.mean() < 0.02 * expected.abs().mean()


@pytest.mark.parametrize("version", VERSIONS)
def test_narrow_stock_models_score_as_reported(narrow, version):
    directories = list(narrow.values())
    reported = [report_of(directory)["compressed"]["perplexity"] for directory in directories]
    tokens = directories[0].parent / "tokens.safetensors"
    assert score_all(version, directories, tokens) == pytest.approx(reported, rel=1e-3)


GENERATE_ALL = """
import sys, torch
from transformers import AutoModelForCausalLM
ids = torch.arange(2, 18)[None]  # past the short factors: stock classes keep keys of short ones
for directory in sys.argv[1:]:
    model = AutoModelForCausalLM.from_pretrained(directory)
    options = dict(max_new_tokens=8, do_sample=False, pad_token_id=1, eos_token_id=None)
    cached, whole = (model.generate(ids, use_cache=use, **options) for use in (True, False))
    assert torch.equal(cached, whole), directory
    print(type(model).__name__, cached.shape[1])
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_narrow_stock_models_generate_without_code_of_their_own(narrow, version):
    printed = run_python(version, "-c", GENERATE_ALL, *narrow.values())
    classes = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[keys["model_type"]] for keys, _ in SOURCES.values()]
    assert printed.splitlines() == [f"{name} 24" for name in classes]


def in_ctranslate2(directory, windows, folder):
    """Returns the perplexity of a model converted to CTranslate2. Its words are numbers."""
    from ctranslate2 import Generator
    from ctranslate2.converters import TransformersConverter

    size = keys_of(directory)["vocab_size"]
    words = [f"t{i}" for i in range(size)]
    words[size - 1] = "<|endoftext|>"  # a Qwen's tokenizer adds this word if it is missing
    model = models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="t0")
    names = {"bos_token": "t0", "eos_token": "t1", "unk_token": "t0"}
    source = shutil.copytree(directory, folder / "source")
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model), **names).save_pretrained(source)
    TransformersConverter(str(source)).convert(str(folder / "converted"))
    engine = Generator(str(folder / "converted"), compute_type="float32", intra_threads=1)
    scores = engine.score_batch([[words[i] for i in window] for window in windows.tolist()])
    log_probabilities = [value for score in scores for value in score.log_probs]
    assert len(log_probabilities) == windows.shape[0] * (windows.shape[1] - 1)
    return math.exp(-sum(log_probabilities) / len(log_probabilities))


# Stock models that the engine can load: docs/serving.md.
@pytest.mark.parametrize("name", ["llama", "qwen3-wide-heads", "qwen3-biases"])
def test_ctranslate2_measures_the_reported_perplexity(outputs, narrow, evaluation, name, tmp_path):
    directory = outputs["stock-float32"] if name == "llama" else narrow[name]
    windows = load_file(evaluation)["tokens"][:4] if name == "llama" else IDS
    tokens = tmp_path / "tokens.safetensors"
    save_file({"tokens": windows}, tokens)
    command = [WORKER, "eval", directory, "--tokens", tokens, "-o", "json"]
    (model,) = json.loads(as_text(command))["models"]
    assert in_ctranslate2(directory, windows, tmp_path) == pytest.approx(model["perplexity"], rel=1e-3)
