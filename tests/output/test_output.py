"""Loads the worker's output like a user does. Needs the built worker and both versions of transformers."""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import torch
from layer_sizes import silence_features, silence_values
from narrowing import CODE, code_files
from running import DATA, EXAMPLE, ROOT, VERSIONS, WORKER, keys_of, report_of, run_python, run_worker, score_all
from safetensors.torch import load_file, save_file
from tiny_models import ROTARY_SOURCES, random_dense, tiny_keys
from transformers import AutoModelForCausalLM

COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory, evaluation):
    """Runs the same job twice."""
    folder = tmp_path_factory.mktemp("jobs")
    text = folder / "calibration.txt"
    text.write_text(topics["compound"] + topics["execmodel"], encoding="utf-8")
    return [
        run_worker(
            folder,
            {
                "name": name,
                "model": {"path": str(EXAMPLE)},
                "output": {"path": str(folder / name)},
                "method": {"name": "pca_dotresize", "sparsity": 0.2},
                "calibration": {"text": [str(text)], "samples": 16, "seqlen": 128},
                "evaluation": {"tokens": str(evaluation), "seqlen": 512},
                "resources": {"ranks": 3},
            },
            ranks=3,
        )
        for name in ("first", "second")
    ]


def relative_files(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def test_the_directory_is_complete_and_nothing_else_is_left(outputs):
    names = relative_files(outputs[0])
    shards = [name for name in names if name.endswith(".safetensors")]
    count = len(shards)
    assert shards == [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]
    others = ["config.json", "model.safetensors.index.json", "README.md", "SHA256SUMS"]
    others += [*code_files(keys_of(outputs[0])), *COPIED, "dotresize/report.json"]
    assert names == sorted(shards + others)
    assert not list(outputs[0].parent.glob("*.partial"))


def test_code_and_tokenizer_are_copied_byte_for_byte(outputs):
    for name in code_files(keys_of(outputs[0])):
        assert (outputs[0] / name).read_bytes() == (CODE / name).read_bytes()
    for name in COPIED:
        assert (outputs[0] / name).read_bytes() == (EXAMPLE / name).read_bytes()


def test_a_copy_has_neither_the_mode_nor_the_code_of_its_source(tmp_path):
    model = shutil.copytree(EXAMPLE, tmp_path / "model")
    config = json.loads((model / "tokenizer_config.json").read_text())
    code = {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (model / "tokenizer_config.json").write_text(json.dumps(config | code))
    (model / "tokenizer.json").chmod(0o6755)
    job = {
        "name": "copied",
        "model": {"path": str(model)},
        "output": {"path": str(tmp_path / "out")},
        "method": {"name": "magnitude", "sparsity": 0.5},
        "calibration": {"tokens": str(DATA / "calibration.safetensors"), "samples": 1},
    }
    output = run_worker(tmp_path, job, ranks=1)
    assert json.loads((output / "tokenizer_config.json").read_text()) == config
    assert (output / "tokenizer.json").stat().st_mode & 0o7111 == 0


def test_checksums_hold_for_every_file(outputs):
    check = ["sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS"]
    subprocess.run(check, cwd=outputs[0], check=True)
    lines = (outputs[0] / "SHA256SUMS").read_text().splitlines()
    listed = [line.split("  ", 1)[1] for line in lines]
    assert listed == sorted(listed)
    assert listed == [name for name in relative_files(outputs[0]) if name != "SHA256SUMS"]


def test_the_index_names_every_tensor_once(outputs):
    index = json.loads((outputs[0] / "model.safetensors.index.json").read_text())
    stored = {}
    for shard in sorted(set(index["weight_map"].values())):
        stored.update(dict.fromkeys(load_file(outputs[0] / shard), shard))
    assert stored == index["weight_map"]


def test_two_runs_of_one_job_write_identical_models(outputs):
    def digests(directory):
        return {
            name: hashlib.sha256((directory / name).read_bytes()).hexdigest()
            for name in relative_files(directory)
            if name not in ("README.md", "SHA256SUMS", "dotresize/report.json")
        }

    assert digests(outputs[0]) == digests(outputs[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_measures_the_reported_perplexity(outputs, evaluation, version):
    report = report_of(outputs[0])
    script = ROOT / "scripts" / "load_and_score.py"
    measured = float(run_python(version, script, outputs[0], evaluation, "--seqlen", 512))
    assert measured == pytest.approx(report["compressed"]["perplexity"], rel=1e-3)
    assert measured > report["dense"]["perplexity"]


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_generates_with_cache_and_padding(outputs, version):
    program = Path(__file__).parent / "check_generation.py"
    result = json.loads(run_python(version, program, outputs[0]))
    assert result["transformers"].startswith(version + ".")
    assert result["class"] == "DotResizeForCausalLM"
    assert result["unloaded"] == result["unexpected"] == []
    assert result["together"] == result["alone"] == result["without_cache"]


FULL_WIDTH_SOURCES = {
    "llama-biases-tied": tiny_keys(
        "llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True
    ),
    "mistral-sliding-wide-heads": tiny_keys("mistral", sliding_window=7, head_dim=20),
    "phi3-partial-sliding": tiny_keys("phi3", partial_rotary_factor=0.5, sliding_window=7),
    "qwen2-tied": tiny_keys("qwen2", tie_word_embeddings=True),
    "qwen3-biases-wide-heads": tiny_keys("qwen3", attention_bias=True, head_dim=20),
    "granite-factor-of-scores": tiny_keys("granite", attention_multiplier=0.2),
    "seed_oss-output-bias": tiny_keys("seed_oss", attention_out_bias=True),
    "smollm3-tied": tiny_keys("smollm3", no_rope_layers=[1, 0, 1], tie_word_embeddings=True),
    "ministral3-sliding": tiny_keys("ministral3", sliding_window=7),
    "hunyuan_v1_dense-biases": tiny_keys("hunyuan_v1_dense", attention_bias=True),
    "mixtral-sliding-tied": tiny_keys("mixtral", sliding_window=7, tie_word_embeddings=True),
    "qwen3_moe-biases-wide-heads": tiny_keys("qwen3_moe", attention_bias=True, head_dim=20),
}
FULL_WIDTH_JOBS = [
    *itertools.product(FULL_WIDTH_SOURCES, ["pca_dotresize"]),
    *itertools.product(["phi3-partial-sliding", "qwen3_moe-biases-wide-heads"], ["magnitude"]),
    *itertools.product(ROTARY_SOURCES, ["slicegpt"]),
]


def random_ids():
    return torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(5))


def random_job(folder, dense, name, **more):
    """Returns a job for a random model and random tokens, both written to the folder."""
    dense.save_pretrained(folder / "dense")
    save_file({"tokens": random_ids()}, folder / "tokens.safetensors")
    return {
        "name": name,
        "model": {"path": str(folder / "dense")},
        "output": {"path": str(folder / name), "dtype": "float32"},
        "calibration": {"tokens": str(folder / "tokens.safetensors")},
        "resources": {"ranks": 2},
        **more,
    }


@pytest.mark.parametrize(("source", "method"), FULL_WIDTH_JOBS)
def test_full_width_gives_the_dense_logits(tmp_path, source, method):
    dense = random_dense({**FULL_WIDTH_SOURCES, **ROTARY_SOURCES}[source])
    method = {"name": method, "width": 48, "head": "sliced", "allow_larger": True}
    job = random_job(tmp_path, dense, "full", method=method, resources={"ranks": 1})
    directory = run_worker(tmp_path, job, ranks=1)
    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True).eval()
    with torch.no_grad():
        expected, actual = dense(random_ids()[:2]).logits, model(random_ids()[:2]).logits
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


def predicted_losses(folder, dense):
    """Returns the predicted loss increases of the model's sublayers at their sizes."""
    folder.mkdir()
    job = random_job(folder, dense, "cut", method={"size": 0.9, "round_to": 8})
    job["calibration"]["statistics"] = {"save": str(folder / "statistics")}
    run_worker(folder, job, ranks=2)
    curves = folder / "statistics" / "junctions"
    return [load_file(curves / f"curve-{sublayer}.safetensors")["rises"] for sublayer in range(6)]


def test_a_factor_of_the_layers_counts_as_if_it_were_in_the_weights(tmp_path):
    losses = {}
    for factor in (0.5, 1.0):
        dense = random_dense(tiny_keys("granite", residual_multiplier=factor, attention_multiplier=0.2))
        for name, weight in dense.state_dict().items():
            if factor == 1.0 and name.endswith(("o_proj.weight", "down_proj.weight")):
                weight *= 0.5
        losses[factor] = predicted_losses(tmp_path / str(factor), dense)
    for factored, plain in zip(losses[0.5], losses[1.0], strict=True):
        assert plain.max() > 0
        torch.testing.assert_close(factored, plain, rtol=1e-6, atol=0)


FAMILIES_WITHOUT_MAPS = {
    "gemma": "Gemma",
    "gemma2": "Gemma2",
    "gemma3_text": "Gemma3",
    "olmo2": "Olmo2",
    "olmo3": "Olmo3",
    "glm4": "Glm4",
    "exaone4": "Exaone4",
    "hunyuan_v1_dense": "HunYuanDenseV1",
    "ministral3": "Ministral3",
    "qwen3_5_text": "Qwen3_5",
    "qwen3_5_moe_text": "Qwen3_5Moe",
}
# Largest KL at 90 % of the bytes, custom and stock: one size for all layers costs more. Norms of 1 + weight give a gemma large
# activations, and a qwen3_5_text loses features alone.
KL_WITHOUT_MAPS = {"gemma": (0.12, 0.5), "qwen3_5_text": (0.24, 0.8), "qwen3_5_moe_text": (0.24, 0.8)}
RANKS = {"any": 2, "stock": 1}  # each family runs with several ranks once
HEALED_WITHOUT_MAPS = ("gemma3_text", "olmo3", "qwen3_5_text")


@pytest.mark.parametrize("form", ["any", "stock"])
@pytest.mark.parametrize("family", FAMILIES_WITHOUT_MAPS)
def test_a_size_leaves_the_reported_perplexity(tmp_path, family, form):
    dense = random_dense(tiny_keys(family, tie_word_embeddings=family.startswith("gemma")))
    job = random_job(tmp_path, dense, "cut", method={"size": 0.9, "round_to": 8})
    if family in HEALED_WITHOUT_MAPS:
        job["heal"] = {"epochs": 2}
    job["output"]["format"] = form
    job["evaluation"] = job["calibration"]
    directory = run_worker(tmp_path, job, ranks=RANKS[form])
    report = report_of(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=form == "any").eval()
    assert type(model).__name__.removeprefix("DotResize") == FAMILIES_WITHOUT_MAPS[family] + "ForCausalLM"
    for of_model, loaded in (("dense", dense), ("compressed", model)):
        with torch.no_grad():
            logits = loaded(random_ids()).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), random_ids()[:, 1:].flatten())
        assert report[of_model]["perplexity"] == pytest.approx(loss.exp().item(), rel=1e-5)
    custom, stock = KL_WITHOUT_MAPS.get(family, (0.1, 0.4))
    assert report["compressed"]["kl"] < (custom if form == "any" else stock)


def test_a_stock_phi3_keeps_its_longrope(tmp_path):
    """transformers 4 accepts three keys of a longrope in a phi3, and refuses more."""
    job = random_job(tmp_path, random_dense(ROTARY_SOURCES["phi3-longrope"]), "cut", method={"size": 0.8, "round_to": 8})
    job["output"]["format"] = "stock"
    job["evaluation"] = job["calibration"]
    directory = run_worker(tmp_path, job, ranks=1)
    expected = report_of(directory)["compressed"]["perplexity"]
    for version in VERSIONS:
        assert score_all(version, [directory], tmp_path / "tokens.safetensors") == pytest.approx([expected], rel=1e-5), version


EXPERT_SOURCES = {  # that have no maps
    "qwen2_moe": tiny_keys("qwen2_moe", tie_word_embeddings=True),
    "glm4_moe": tiny_keys("glm4_moe"),
    "gpt_oss": tiny_keys("gpt_oss"),
}


@pytest.mark.parametrize("form", ["any", "stock"])
@pytest.mark.parametrize("source", EXPERT_SOURCES)
def test_experts_are_cut_and_healed(tmp_path, source, form):
    dense = random_dense(EXPERT_SOURCES[source])
    job = random_job(tmp_path, dense, "cut", method={"size": 0.8, "round_to": 4}, heal={"epochs": 1})
    job["output"]["format"] = form
    job["evaluation"] = job["calibration"]
    directory = run_worker(tmp_path, job, ranks=RANKS[form])
    subprocess.run([WORKER, "verify", directory], check=True)
    report = report_of(directory)
    assert 0.76 < report["compressed"]["bytes"] / report["dense"]["bytes"] <= 0.8
    for version in VERSIONS:
        scores = score_all(version, [tmp_path / "dense", directory], tmp_path / "tokens.safetensors")
        expected = [report[of_model]["perplexity"] for of_model in ("dense", "compressed")]
        assert scores == pytest.approx(expected, rel=1e-5)


def test_a_norm_behind_a_sublayer_takes_the_scale_of_its_weights_away(tmp_path):
    losses = {}
    for factor in (1.0, 4.0):
        dense = random_dense(tiny_keys("gemma3_text", rms_norm_eps=1e-9))
        for name, weight in dense.state_dict().items():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight *= factor
        losses[factor] = predicted_losses(tmp_path / str(factor), dense)
    for factored, plain in zip(losses[4.0], losses[1.0], strict=True):
        assert plain.max() > 0
        torch.testing.assert_close(factored, plain, rtol=1e-4, atol=0)


# The mixture alone runs every day.
HEALED = list(FULL_WIDTH_SOURCES) if os.environ.get("DOTRESIZE_ALL_CASES") else ["mixtral-sliding-tied"]


@pytest.mark.parametrize("form", ["any", "stock"] if len(HEALED) > 1 else ["any"])
@pytest.mark.parametrize("source", HEALED)
def test_layers_of_each_family_are_healed(tmp_path, source, form):
    if form == "stock" and source.startswith("qwen3_moe"):
        pytest.skip("stock models of this family are tested elsewhere")
    method = {"name": "slicegpt", "width": 40, "allow_larger": True}
    job = random_job(tmp_path, random_dense(FULL_WIDTH_SOURCES[source]), "healed", method=method)
    job["output"]["format"] = form
    directory = run_worker(tmp_path, {**job, "heal": {"learning_rate": 0.00003}}, ranks=2)
    heal = report_of(directory)["heal"]
    assert sum(layer["healed_error"] for layer in heal["layers"]) < sum(layer["folded_error"] for layer in heal["layers"])
    before, *_, trained, taken = heal["held_out_kl"]  # the weights are random: whether the KL falls is chance
    assert len(heal["held_out_kl"]) == 5
    assert heal["update_share"] in (0, 0.25, 0.5, 0.75, 1)
    assert taken == {0: before, 1: trained}.get(heal["update_share"], taken)
    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True).eval()
    with torch.no_grad():
        assert model(random_ids()[:2]).logits.isfinite().all()
    subprocess.run([WORKER, "verify", directory], check=True)


# Cases: biases, a fused in_proj, and experts beside an MLP.
@pytest.mark.parametrize(
    "source", ["llama-biases-tied", "phi3-partial-sliding", "qwen3_moe-biases-wide-heads"]
)
def test_features_that_write_nothing_are_those_that_are_cut(tmp_path, source):
    dense = random_dense(FULL_WIDTH_SOURCES[source])
    state = dense.state_dict()
    for name, weight in state.items():
        if name.endswith(("down_proj.weight", "experts.down_proj")):
            weight[..., 2::3] = 0.0
    dense.load_state_dict(state)
    method = {"name": "slicegpt", "width": 48, "head": "sliced", "allow_larger": True}
    # 26 of 80 features are idle, in experts of qwen3_moe 9 of 28.
    method |= {"mlp": {"sparsity": 0.3}, "round_to": 1}
    job = random_job(tmp_path, dense, "cut", method=method)
    directory = run_worker(tmp_path, job, ranks=2)
    report = report_of(directory)
    assert [mlp["width"] for mlp in report["mlps"]] == [
        19 if mlp["intermediate_size"] == 28 else 56 for mlp in report["mlps"]
    ]
    assert all(mlp["predicted_rise"] == 0 for mlp in report["mlps"])
    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True).eval()
    with torch.no_grad():
        expected, actual = dense(random_ids()[:2]).logits, model(random_ids()[:2]).logits
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


# Number of features per layer that write nothing, the same in all experts of qwen3_moe.
SILENT_FEATURES = {"llama-biases-tied": [0, 60, 12], "qwen3_moe-biases-wide-heads": [13, 0, 9], "qwen2_moe": [14, 0, 9]}


@pytest.mark.parametrize("source", SILENT_FEATURES)
def test_allocated_features_go_where_they_do_nothing(tmp_path, source):
    silent = SILENT_FEATURES[source]
    dense = random_dense((FULL_WIDTH_SOURCES | EXPERT_SOURCES)[source])
    silence_features(dense, lambda layer, feature: feature < silent[layer])
    experts = getattr(dense.config, "num_experts", 1)
    written_by_none = sum(silent) * experts * 3 * dense.config.hidden_size
    size = round(1 - 0.95 * written_by_none / dense.num_parameters(), 4)
    method = {"size": size, "round_to": 1}
    tokens = tmp_path / "tokens.safetensors"
    evaluation = {"tokens": str(tokens), "seqlen": 64}
    job = random_job(tmp_path, dense, "cut", method=method, evaluation=evaluation)
    directory = run_worker(tmp_path, job, ranks=2)
    report = report_of(directory)
    keys = keys_of(directory)
    left = [mlp["width"] for mlp in report["mlps"]]
    assert keys["intermediate_sizes"] == report["allocation"]["features"] == left
    removed = [mlp["intermediate_size"] - mlp["width"] for mlp in report["mlps"]]
    assert all(gone <= nothing for gone, nothing in zip(removed, silent, strict=True)), removed
    assert sum(removed) > 0.8 * sum(silent)

    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True).eval()
    with torch.no_grad():
        expected, actual = dense(random_ids()[:2]).logits, model(random_ids()[:2]).logits
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)
    reported = report["compressed"]["perplexity"]
    assert reported == pytest.approx(report["dense"]["perplexity"], rel=1e-4)
    for version in VERSIONS:
        assert score_all(version, [directory], tokens) == pytest.approx([reported], rel=1e-3)

    for sizes, said in [(left[:2], "intermediate_sizes: must be a list"), (left[::-1], "expected")]:
        (directory / "config.json").write_text(json.dumps({**keys, "intermediate_sizes": sizes}))
        command = [WORKER, "eval", directory, "--tokens", tokens]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode == 65 and said in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("dtype", "method"),
    [("bfloat16", {"size": 0.4, "round_to": 4}), ("float32", {"size": 0.8, "round_to": 1}), ("bfloat16", {"sparsity": 0.2, "round_to": 2})],
)
def test_transformers_multiplies_by_all_experts_of_a_stock_mixture_at_once(tmp_path, dtype, method):
    """It does so by default, and fails where rows are not whole blocks of 16 bytes."""
    job = random_job(tmp_path, random_dense(tiny_keys("qwen3_moe", moe_intermediate_size=32)), "stock", method=method)
    job["output"] |= {"format": "stock", "dtype": dtype}
    directory = run_worker(tmp_path, job, ranks=1)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype="auto").eval()
    assert str(model.dtype).endswith(dtype)
    with torch.no_grad():
        assert model(random_ids()[:2]).logits.isfinite().all()


# Cases: query heads that share values, biases, a fused in_proj, and a mixture of experts.
ALLOCATED_SOURCES = ["llama-biases-tied", "phi3-partial-sliding", "qwen2-tied", "mixtral-sliding-tied"]


@pytest.mark.parametrize("source", ALLOCATED_SOURCES)
def test_allocated_value_heads_have_their_reported_perplexity_in_transformers(tmp_path, source):
    """Channels that nothing reads go first, and little else."""
    dense = random_dense(FULL_WIDTH_SOURCES[source])
    silence_values(dense, [1, 12, 7])
    tokens = tmp_path / "tokens.safetensors"
    job = random_job(
        tmp_path,
        dense,
        "allocated",
        method={"size": 0.85, "round_to": 4},
        evaluation={"tokens": str(tokens), "seqlen": 64},
    )
    directory = run_worker(tmp_path, job, ranks=2)
    report = report_of(directory)
    keys = keys_of(directory)
    dims = [attention["value_head_dim"] for attention in report["attentions"]]
    assert dims == keys["value_head_dims"] == report["allocation"]["value_head_dims"]
    assert dims[0] == 1 and dims[2] <= 7
    parameters = sum(t.numel() for file in directory.glob("*.safetensors") for t in load_file(file).values())
    assert parameters == report["compressed"]["parameters"]
    reported = report["compressed"]["perplexity"]
    for version in VERSIONS:
        assert score_all(version, [directory], tokens) == pytest.approx([reported], rel=1e-3)
    command = [WORKER, "verify", directory, "--against", tmp_path / "dense", "--tokens", tokens]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert verified.returncode == 0, verified.stdout + verified.stderr


LACKED = {"4": ("ministral3", "qwen3_5_text"), "5": ()}  # families that a version of transformers does not have


def check_perplexities(folder, sources, method, activations, ranks):
    """Checks that a narrowed model of each source has its reported perplexity in both versions of transformers."""
    directories = []
    for source, keys in sources.items():
        (folder / source).mkdir()
        tokens = folder / source / "tokens.safetensors"
        job = random_job(
            folder / source,
            random_dense(keys),
            source,
            method={"name": method, "sparsity": 0.2},
            evaluation={"tokens": str(tokens), "seqlen": 64},
            resources={"ranks": ranks},
        )
        job["calibration"]["activations"] = activations
        directories.append(run_worker(folder / source, job, ranks=ranks))
    reports = [report_of(d) for d in directories]
    reported = [report["compressed"]["perplexity"] for report in reports]
    for version in VERSIONS:
        there = [i for i, keys in enumerate(sources.values()) if keys["model_type"] not in LACKED[version]]
        measured = score_all(version, [directories[i] for i in there], tokens)
        assert measured == pytest.approx([reported[i] for i in there], rel=1e-3)


# A second rank costs as much as the job: each family has it once.
@pytest.mark.parametrize(("activations", "ranks"), [("original", 1), ("compressed", 2)])
def test_every_family_has_its_reported_perplexity_in_transformers(tmp_path, activations, ranks):
    check_perplexities(tmp_path, FULL_WIDTH_SOURCES, "pca_dotresize", activations, ranks)


def test_every_rotary_embedding_has_its_reported_perplexity_in_transformers(tmp_path):
    check_perplexities(tmp_path, ROTARY_SOURCES, "slicegpt", "original", ranks=1)


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3_5_text", "qwen3_5_moe_text"])
def test_text_parts_whose_classes_have_other_stems_run_with_their_code(tmp_path, family):
    """Their configuration is that of a Gemma3Text, their head that of a Gemma3."""
    job = random_job(tmp_path, random_dense(tiny_keys(family)), "text", method={"size": 0.85, "round_to": 4})
    job["evaluation"] = {"tokens": str(tmp_path / "tokens.safetensors"), "seqlen": 64}
    directory = run_worker(tmp_path, job, ranks=1)
    reported = report_of(directory)["compressed"]["perplexity"]
    assert score_all("5", [directory], tmp_path / "tokens.safetensors") == pytest.approx([reported], rel=1e-3)
