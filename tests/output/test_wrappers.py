"""Tests of models around one of text: its text part is compressed, all else is copied, and the output loads in the model's own class."""

import json
import os
import subprocess
import sys

import pytest
import torch
from forking import MODELS, forking_python
from running import ROOT, VERSIONS, WORKER, keys_of, report_of, run_python, run_worker, score_all
from safetensors.torch import save_file
from test_quantised import quantised
from tiny_models import tensors_of
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

sys.path.append(str(ROOT / "tests" / "worker"))

import interrupted  # noqa: E402

IDS = torch.randint(2, 90, (16, 32), generator=torch.Generator().manual_seed(5))
IMAGE, IMAGE_TOKENS = 96, 4
TEXT = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
    "vocab_size": 97, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
}  # fmt: skip
VISION = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 28, "patch_size": 7}
GEMMA3 = {"query_pre_attn_scalar": 20, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16, "llama_4_scaling_beta": 0.5}
QWEN3_5 = {
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 10,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 1]},
}  # fmt: skip
EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 400, "shared_expert_intermediate_size": 120}
QWEN3_5_VISION = {
    "depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 4, "patch_size": 7, "out_hidden_size": 48, "num_position_embeddings": 16,
}  # fmt: skip
SOURCES = {
    "gemma3": {
        "text_config": TEXT | GEMMA3 | {"model_type": "gemma3_text"},
        "vision_config": VISION | {"model_type": "siglip_vision_model", "vision_use_head": False},
        "mm_tokens_per_image": IMAGE_TOKENS, "image_token_index": IMAGE, "boi_token_index": 94, "eoi_token_index": 95,
    },
    "mistral3": {
        "text_config": TEXT | {"model_type": "mistral", "sliding_window": None},
        "vision_config": VISION | {"model_type": "pixtral", "head_dim": 8},
        "image_token_index": IMAGE, "spatial_merge_size": 2, "tie_word_embeddings": False,
    },
    "ministral3": {
        "text_config": TEXT | {"model_type": "ministral3", "rope_parameters": YARN},
        "vision_config": VISION | {"model_type": "pixtral", "head_dim": 8},
        "image_token_index": IMAGE, "spatial_merge_size": 2, "tie_word_embeddings": True,
    },
    "qwen3_5": {
        "text_config": TEXT | QWEN3_5 | {"model_type": "qwen3_5_text"},
        "vision_config": QWEN3_5_VISION,
        "image_token_id": IMAGE, "video_token_id": 93, "vision_start_token_id": 94, "vision_end_token_id": 95,
        "tie_word_embeddings": False,
    },
    "qwen3_5_moe": {
        "text_config": TEXT | QWEN3_5 | EXPERTS | {"model_type": "qwen3_5_moe_text"},
        "vision_config": QWEN3_5_VISION,
        "image_token_id": IMAGE, "video_token_id": 93, "vision_start_token_id": 94, "vision_end_token_id": 95,
        "tie_word_embeddings": False,
    },
    "llava": {
        "text_config": TEXT | {"model_type": "llama"},
        "vision_config": VISION | {"model_type": "clip_vision_model", "projection_dim": 16},
        "image_token_index": IMAGE, "image_seq_length": 16,
    },
}  # fmt: skip
COMPANIONS = {"preprocessor_config.json": '{"size": {"height": 28,  "width": 28}}', "processor_config.json": "{}", "chat_template.json": "{}",
              "tekken.json": '{"vocab":  []}'}  # fmt: skip
MODULE_NAMES = {"language_model.model.": "model.language_model.", "language_model.lm_head.": "lm_head.",
                "vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."}  # fmt: skip
ALL = (*SOURCES, "modules")
KNOWN = {"5": ALL, "4": [name for name in ALL if name not in ("ministral3", "qwen3_5", "qwen3_5_moe")]}  # to versions of transformers


def save_source(folder, kind):
    """Saves a random model with files beside it, and one more tensor, of integers, as published models have."""
    keys = json.loads(json.dumps(SOURCES[kind]))
    torch.manual_seed(0)
    wrapper = CONFIG_MAPPING["mistral3" if kind == "ministral3" else kind]
    model = AutoModelForImageTextToText.from_config(wrapper(**keys)).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name and ("language_model" in name or "projection" in name):  # gemma3's projector begins with zeros
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    tensors = tensors_of(folder) | {"vision_tower.embeddings.position_ids": torch.arange(16)[None]}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for name, text in COMPANIONS.items():
        (folder / name).write_text(text)


def with_module_names(source, folder):
    """Copies a model, with the tensors' names of the modules in transformers."""
    folder.mkdir(parents=True)
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tensors = tensors_of(source)
    for before, after in MODULE_NAMES.items():
        tensors = {after + name.removeprefix(before) if name.startswith(before) else name: tensor for name, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def job_of(folder, source, out, **changes):
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    job = {
        "name": out,
        "model": {"path": str(folder / source)},
        "output": {"path": str(folder / out)},
        "method": {"size": 0.8, "round_to": 8 if "moe" in source else 1},  # transformers computes experts in rows of whole 16 bytes
        "calibration": tokens,
        "evaluation": tokens,
        "resources": {"ranks": 2},
    }
    return job | changes


RANKS = {"gemma3": 2, "qwen3_5_moe": 2}  # a second rank costs as much as the job


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes the sources by name, and "NAME-out", the output of a job that names no format."""
    folder = tmp_path_factory.mktemp("wrappers")
    save_file({"tokens": IDS}, folder / "tokens.safetensors")
    for kind in SOURCES:
        save_source(folder / kind, kind)
    with_module_names(folder / "mistral3", folder / "modules")
    for name in ALL:
        ranks = RANKS.get(name, 1)
        run_worker(folder, job_of(folder, name, f"{name}-out", resources={"ranks": ranks}), ranks)
    return folder


def is_text(name):
    return "language_model." in name or name.startswith("lm_head.")


def bytes_of(tensors):
    return sum(tensor.nbytes for tensor in tensors.values())


@pytest.mark.parametrize("name", ALL)
def test_the_text_part_is_compressed_and_all_else_is_copied(folder, name):
    source, output = tensors_of(folder / name), tensors_of(folder / f"{name}-out")
    assert source.keys() == output.keys()
    others = [key for key in source if not is_text(key)]
    assert others and all(source[key].dtype == output[key].dtype and torch.equal(source[key], output[key]) for key in others)
    text, small = ({key: tensor for key, tensor in tensors.items() if is_text(key)} for tensors in (source, output))
    assert 0.78 < bytes_of(small) / bytes_of(text) <= 0.8
    before, after = keys_of(folder / name), keys_of(folder / f"{name}-out")
    of_features = ["moe_intermediate_size", "shared_expert_intermediate_size"] if "moe" in name else ["intermediate_size"]
    features = {after["text_config"].pop(key) for key in of_features}
    assert features == {len(tensor) for key, tensor in small.items() if "up_proj" in key}
    for key in of_features:
        before["text_config"].pop(key)
    for key in before.keys() - {"text_config"}:
        assert after[key] == before[key], key
    stated = {"tie_word_embeddings", "rope_parameters"}  # for transformers 4 the outer key's value, and all values of a rotary embedding
    for key in before["text_config"].keys() & after["text_config"].keys() - stated:
        assert after["text_config"][key] == before["text_config"][key], key
    rotaries = [keys["text_config"].get("rope_parameters") or {} for keys in (before, after)]
    assert rotaries[0].get("mrope_section") == rotaries[1].get("mrope_section")
    assert not report_of(folder / f"{name}-out")["warnings"]
    for file in COMPANIONS:
        assert (folder / f"{name}-out" / file).read_bytes() == (folder / name / file).read_bytes()


@pytest.mark.parametrize("name", ALL)
def test_the_report_tells_the_text_part_from_the_whole(folder, name):
    report, source = report_of(folder / f"{name}-out"), tensors_of(folder / name)
    text = bytes_of({key: tensor for key, tensor in source.items() if is_text(key)})
    assert report["dense"]["bytes"] == text and report["compressed"]["bytes"] <= 0.8 * text
    wrapper = report["wrapper"]
    assert wrapper["model_type"] == keys_of(folder / name)["model_type"] and wrapper["calibrated_on"] == "text"
    assert wrapper["copied_bytes"] == bytes_of(source) - text
    assert wrapper["dense_bytes"] == bytes_of(source) and wrapper["compressed_bytes"] == bytes_of(tensors_of(folder / f"{name}-out"))
    card = (folder / f"{name}-out" / "README.md").read_text()
    assert "AutoModelForImageTextToText" in card and "trust_remote_code" not in card and "without images" in card


@pytest.mark.parametrize("version", VERSIONS)
def test_transformers_measures_the_reported_perplexities_of_text(folder, version):
    tokens = folder / "tokens.safetensors"
    names = KNOWN[version]
    reports = [report_of(folder / f"{name}-out") for name in names]
    for directories, model in (([folder / name for name in names], "dense"), ([folder / f"{name}-out" for name in names], "compressed")):
        assert score_all(version, directories, tokens) == pytest.approx([report[model]["perplexity"] for report in reports], rel=1e-5)


SHOW_IMAGE = f"""
import sys, torch, transformers
for directory in sys.argv[1:]:
    model = transformers.AutoModelForImageTextToText.from_pretrained(directory).eval()
    pixels = torch.rand(1, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    kind, more = model.config.model_type, {{}}
    if kind == "mistral3":
        more["image_sizes"] = torch.tensor([[28, 28]])
    count = 16 if kind == "llava" else {IMAGE_TOKENS}
    ids = torch.tensor([[5] + [{IMAGE}] * count + [7, 9]])
    if kind in ("qwen3_5", "qwen3_5_moe"):  # patches, and how many of them are in a column and a row
        pixels = torch.rand(16, 3 * 2 * 7 * 7, generator=torch.Generator().manual_seed(0))
        more["image_grid_thw"] = torch.tensor([[1, 4, 4]])
        more["mm_token_type_ids"] = (ids == {IMAGE}).long()
    if kind == "gemma3":
        more["token_type_ids"] = (ids == {IMAGE}).long()
    with torch.no_grad():
        shown = model(ids, pixel_values=pixels, **more).logits
        dark = model(ids, pixel_values=pixels * 0, **more).logits
    print(type(model).__name__, bool(shown.isfinite().all()), torch.equal(shown, dark))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_outputs_see_images_in_their_own_class(folder, version):
    names = KNOWN[version]
    lines = run_python(version, "-c", SHOW_IMAGE, *(folder / f"{name}-out" for name in names)).splitlines()
    classes = [keys_of(folder / name)["architectures"][0] for name in names]
    assert lines == [f"{name} True False" for name in classes]


@pytest.mark.parametrize("name", ALL)
def test_verify_and_eval_read_outputs(folder, name):
    tokens, output = folder / "tokens.safetensors", folder / f"{name}-out"
    subprocess.run([WORKER, "verify", output, "--against", folder / name, "--tokens", tokens], check=True)
    environment = os.environ | {"DOTRESIZE_PYTHON": forking_python(MODELS)}
    for runtime in ("own", "transformers"):
        command = [WORKER, "eval", output, "--tokens", tokens, "--runtime", runtime, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["models"][0]["perplexity"] == pytest.approx(report_of(output)["compressed"]["perplexity"], rel=1e-5)


def files_of(output):
    """Returns the content of all files that do not tell of the time or the ranks."""
    return {file.name: file.read_bytes() for file in output.iterdir() if file.is_file() and file.name not in ("README.md", "SHA256SUMS")}


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_number_of_ranks_does_not_matter(folder, ranks):
    output = run_worker(folder, job_of(folder, "gemma3", f"gemma3-{ranks}", resources={"ranks": ranks}), ranks)
    assert files_of(output) == files_of(folder / "gemma3-out")


def test_a_killed_job_goes_on_to_the_same_bytes(folder):
    job = job_of(folder, "gemma3", "gemma3-killed")
    interrupted.run_to_entries(job, folder, 4, lambda running: interrupted.kill(running, "all ranks"))
    assert files_of(run_worker(folder, job, ranks=2)) == files_of(folder / "gemma3-out")


def test_a_damaged_copy_is_noticed(folder, tmp_path):
    for file in (folder / "llava-out").rglob("*"):
        to = tmp_path / file.relative_to(folder / "llava-out")
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file():
            to.write_bytes(file.read_bytes())
    shard = tmp_path / "model-00001-of-00001.safetensors"
    interrupted.flip_bit(shard)
    done = subprocess.run([WORKER, "verify", tmp_path], capture_output=True, text=True)
    assert done.returncode == 65 and shard.name in done.stdout


def test_heal_writes_the_text_part_alone(folder):
    job = job_of(folder, "mistral3", "healed", heal={"samples": 8, "epochs": 1})
    output = run_worker(folder, job, ranks=2)
    source, healed, plain = (tensors_of(directory) for directory in (folder / "mistral3", output, folder / "mistral3-out"))
    assert all(torch.equal(source[name], healed[name]) for name in source if not is_text(name))
    assert any(not torch.equal(plain[name], healed[name]) for name in source if is_text(name))
    subprocess.run([WORKER, "verify", output], check=True)


def test_a_text_part_in_8_bits_is_read_as_what_it_stands_for(folder):
    """Ministral 3 is published so."""
    source = folder / "fp8"
    source.mkdir()
    keys = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None, "modules_to_not_convert": ["lm_head"]}
    (source / "config.json").write_text(json.dumps(keys_of(folder / "ministral3") | {"dtype": "bfloat16", "quantization_config": keys}))
    stored, expected = {}, {}
    for name, tensor in tensors_of(folder / "ministral3").items():
        stored[name] = expected[name] = tensor.bfloat16() if is_text(name) else tensor
        if is_text(name) and "_proj.weight" in name:
            stored[name], scales, expected[name] = quantised(tensor, torch.float8_e4m3fn, (0, 0), torch.bfloat16)
            stored[name + "_scale_inv"] = scales.reshape([])
            stored[name.removesuffix("weight") + "activation_scale"] = torch.ones([])
    save_file(stored, source / "model.safetensors", metadata={"format": "pt"})
    output = run_worker(folder, job_of(folder, "fp8", "fp8-out"), ranks=2)
    written, report = tensors_of(output), report_of(output)
    assert written.keys() == expected.keys() and "quantization_config" not in keys_of(output)
    assert all(torch.equal(written[name], expected[name]) for name in written if written[name].shape == expected[name].shape)
    assert report["quantised_source"] == "fp8" and not report["warnings"]
    assert score_all("5", [output], folder / "tokens.safetensors") == pytest.approx([report["compressed"]["perplexity"]], rel=1e-5)


def test_layers_that_predict_further_tokens_are_left_out(folder):
    """Qwen3.5 is published with them. An output has other sizes, and they would not fit."""
    source = folder / "further"
    source.mkdir()
    keys = keys_of(folder / "qwen3_5")
    keys["text_config"]["mtp_num_hidden_layers"] = 1
    (source / "config.json").write_text(json.dumps(keys))
    tensors = tensors_of(folder / "qwen3_5")
    save_file(tensors | {"mtp.fc.weight": torch.ones(48, 96)}, source / "model.safetensors", metadata={"format": "pt"})
    output = run_worker(folder, job_of(folder, "further", "further-out"), ranks=2)
    assert tensors_of(output).keys() == tensors.keys() and keys_of(output)["text_config"]["mtp_num_hidden_layers"] == 0
    assert report_of(output)["warnings"] == ["tensor 'mtp.fc.weight': layers that predict further tokens are not read, and an output has none"]
    subprocess.run([WORKER, "verify", output, "--against", source, "--tokens", folder / "tokens.safetensors"], check=True)


def dotresize(*arguments):
    return subprocess.run([WORKER.with_name("dotresize"), *map(str, arguments)], capture_output=True, text=True)


def test_plan_tells_the_text_part_from_the_whole(folder):
    file = folder / "planned.yaml"
    file.write_text(json.dumps(job_of(folder, "gemma3", "planned")))
    done = dotresize("plan", file)
    assert done.returncode == 0 and "format stock" in done.stdout and "without images" in done.stdout, done.stdout + done.stderr
    assert "on disk" not in done.stdout and "slicegpt" not in done.stdout
    plan = json.loads(dotresize("plan", file, "-o", "json").stdout)
    report = report_of(folder / "gemma3-out")
    assert plan["wrapper"] == {key: report["wrapper"][key] for key in ("model_type", "copied_tensors", "copied_bytes")}
    assert plan["dense"]["bytes"] == report["dense"]["bytes"]


def test_a_job_file_says_that_it_is_of_the_text_part(folder):
    done = dotresize("init", folder / "gemma3", "--tokens", folder / "tokens.safetensors", "--output", folder / "begun.yaml")
    assert done.returncode == 0, done.stderr
    assert "the text part of a gemma3" in (folder / "begun.yaml").read_text()


def test_a_narrower_stream_is_refused_by_name(folder):
    file = folder / "refused.yaml"
    file.write_text(json.dumps(job_of(folder, "mistral3", "refused", method={"name": "slicegpt", "width": 40})))
    done = dotresize("plan", file)
    assert done.returncode == 65 and "the images of a mistral3 enter it" in done.stderr, done.stderr


def test_export_is_refused_by_name(folder):
    done = dotresize("export", folder / "mistral3-out", "--to", "gguf")
    assert done.returncode == 65 and "is the text part of a mistral3, which is not exported" in done.stderr, done.stderr
