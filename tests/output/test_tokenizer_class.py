"""The tokenizer of an output is that of its source in transformers 5, which chooses its class by model_type."""

import json
import os
import subprocess
from functools import cache

import pytest
from running import WORKER, keys_of, run_python, run_worker
from safetensors.torch import save_file
from tiny_models import random_dense, tiny_keys
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import arange, int32
from transformers import AutoTokenizer

SPECIAL = ["<unk>", "<s>", "</s>"]
NAMED = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
TEXT = "<s> ab 1234 </s> b  12\n<s>It's"
VOCABULARY = 300


@cache
def byte_level():
    """A tokenizer that splits numbers as neither GPT2Tokenizer nor Qwen2Tokenizer does."""
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "12", "34", "1234", "123"]
    merges = [("1", "2"), ("3", "4"), ("12", "34"), ("12", "3")]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges))
    numbers = pre_tokenizers.Split(Regex(r"\p{N}{1,3}| ?\p{L}+|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([numbers, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


@cache
def of_words():
    """A tokenizer that puts a space before each part of a text, as neither LlamaTokenizer nor GemmaTokenizer does."""
    words = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *"▁ab1234", "▁a", "▁▁"]
    model = models.BPE({word: number for number, word in enumerate(words)}, [("▁", "a"), ("▁", "▁")], unk_token="<unk>",
                       fuse_unk=True, byte_fallback=True)  # fmt: skip
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def source_of(folder, family):
    source = folder / "dense"
    keys = tiny_keys(family, vocab_size=VOCABULARY, num_hidden_layers=3)
    random_dense(keys).save_pretrained(source)
    save_file({"tokens": (arange(256, dtype=int32) % VOCABULARY).reshape(4, 64)}, folder / "tokens.safetensors")
    return source


def with_tokenizer(source, tokenizer, settings):
    tokenizer.save(str(source / "tokenizer.json"))
    (source / "tokenizer_config.json").unlink(missing_ok=True)
    if settings is not None:
        (source / "tokenizer_config.json").write_text(json.dumps(settings))


def job_of(source, name, **more):
    return {
        "name": name,
        "model": {"path": str(source)},
        "output": {"path": str(source.parent / name), **more.pop("output", {})},
        "method": {"size": 0.9, "round_to": 4},
        "calibration": {"tokens": str(source.parent / "tokens.safetensors"), "seqlen": 32, "samples": 2},
        **more,
    }


def output_of(source, name, **more):
    return run_worker(source.parent, job_of(source, name, **more), ranks=1)


def tokens_of(directory):
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=True)
    return type(tokenizer).__name__, tokenizer(TEXT, add_special_tokens=False)["input_ids"]


def load_in_transformers_4(*directories):
    program = "import sys\nfrom transformers import AutoTokenizer\nfor name in sys.argv[1:]:\n    t = AutoTokenizer.from_pretrained(name)\n"
    program += "    print(*t('a', add_special_tokens=False))"
    for inputs in run_python("4", "-c", program, *directories).splitlines():
        assert inputs == "input_ids attention_mask"


CLASSES = {  # what transformers 5 takes if no class is named, and if it is LlamaTokenizer
    "llama": ("TokenizersBackend", "LlamaTokenizer"),
    "smollm3": ("TokenizersBackend", "LlamaTokenizer"),
    "seed_oss": ("TokenizersBackend", "LlamaTokenizer"),
    "exaone4": ("TokenizersBackend", "LlamaTokenizer"),
    "hunyuan_v1_dense": ("TokenizersBackend", "LlamaTokenizer"),
    "gpt_oss": ("TokenizersBackend", "LlamaTokenizer"),
    "mistral": ("TokenizersBackend", "TokenizersBackend"),
    "ministral3": ("TokenizersBackend", "TokenizersBackend"),
    "mixtral": ("TokenizersBackend", "TokenizersBackend"),
    "phi3": ("TokenizersBackend", "TokenizersBackend"),
    "granite": ("TokenizersBackend", "TokenizersBackend"),
    "olmo2": ("TokenizersBackend", "TokenizersBackend"),
    "olmo3": ("TokenizersBackend", "TokenizersBackend"),
    "glm4": ("TokenizersBackend", "TokenizersBackend"),
    "glm4_moe": ("TokenizersBackend", "TokenizersBackend"),
    "qwen2": ("Qwen2Tokenizer", "Qwen2Tokenizer"),
    "qwen2_moe": ("Qwen2Tokenizer", "LlamaTokenizer"),
    "qwen3": ("Qwen2Tokenizer", "LlamaTokenizer"),
    "qwen3_moe": ("Qwen2Tokenizer", "LlamaTokenizer"),
    "qwen3_5_text": ("Qwen3_5Tokenizer", "LlamaTokenizer"),
    "qwen3_5_moe_text": ("Qwen3_5Tokenizer", "Qwen3_5Tokenizer"),
    "gemma": ("GemmaTokenizer", "LlamaTokenizer"),
    "gemma2": ("GemmaTokenizer", "LlamaTokenizer"),
    "gemma3_text": ("GemmaTokenizer", "LlamaTokenizer"),
}


@pytest.mark.parametrize("family", CLASSES)
def test_an_output_has_the_tokenizer_of_its_source(tmp_path, family):
    source, (absent, named) = source_of(tmp_path, family), CLASSES[family]
    outputs = []
    for name, tokenizer, settings, expected in (
        ("no-file", of_words() if absent == "GemmaTokenizer" else byte_level(), None, absent),
        ("named", of_words(), NAMED | {"tokenizer_class": "LlamaTokenizer"}, named),
    ):
        with_tokenizer(source, tokenizer, settings)
        outputs.append(output_of(source, name))
        assert tokens_of(source)[0] == expected
        assert tokens_of(outputs[-1]) == tokens_of(source), name
    if not family.startswith("qwen3_5"):  # transformers 4 does not have that class
        load_in_transformers_4(*outputs)


@pytest.mark.parametrize("family, settings, form", [
    ("llama", {}, "custom, nothing of its tokenizer said"),
    ("qwen2", {"tokenizer_class": "PreTrainedTokenizerFast"}, "custom"),
    ("qwen2", {"tokenizer_class": "LlamaTokenizerFast"}, "stock"),
    ("qwen3", {"tokenizer_class": "GPT2Tokenizer"}, "custom"),
    ("qwen3", {"tokenizer_class": "NoSuchTokenizer"}, "custom, of no class"),
    ("mistral", {"tokenizer_class": "TokenizersBackend"}, "custom, of no class in transformers 4"),
    ("llama", {"tokenizer_class": "LlamaTokenizer"}, "custom, of bytes"),
])  # fmt: skip
def test_an_output_has_the_tokenizer_that_is_named(tmp_path, family, settings, form):
    source = source_of(tmp_path, family)
    with_tokenizer(source, byte_level(), NAMED | settings)
    output = output_of(source, "out", output={"format": "stock" if form == "stock" else "any"})
    assert tokens_of(output) == tokens_of(source)
    if settings.get("tokenizer_class") != "NoSuchTokenizer":
        load_in_transformers_4(output)


def test_a_class_in_config_json_is_kept(tmp_path):
    source = source_of(tmp_path, "llama")
    with_tokenizer(source, of_words(), NAMED)
    (source / "config.json").write_text(json.dumps(keys_of(source) | {"tokenizer_class": "LlamaTokenizer"}))
    for form in ("any", "stock"):
        output = output_of(source, form, output={"format": form})
        assert tokens_of(output) == tokens_of(source) and tokens_of(output)[0] == "LlamaTokenizer"


@pytest.mark.parametrize("named, model_type", [("LlamaTokenizer", "llama"), ("PreTrainedTokenizerFast", "mistral")])
def test_a_llama_becomes_a_mistral_if_that_has_its_tokenizer(tmp_path, named, model_type):
    source = source_of(tmp_path, "llama")
    with_tokenizer(source, of_words(), NAMED | {"tokenizer_class": named})
    method = {"name": "slicegpt", "width": 40}
    output = output_of(source, "out", output={"format": "stock"}, method=method)
    assert keys_of(output)["model_type"] == model_type
    assert tokens_of(output) == tokens_of(source)


STEPS = {  # by family: a class that it takes, and settings of it
    "llama": ("LlamaTokenizer", {}),
    "seed_oss": ("LlamaTokenizer", {"legacy": True}),
    "exaone4": ("LlamaTokenizer", {"add_prefix_space": False}),
    "smollm3": ("GPT2Tokenizer", {}),
    "gpt_oss": ("GPT2Tokenizer", {"add_prefix_space": True}),
    "qwen3": ("Qwen2Tokenizer", {}),
    "qwen3_5_text": ("Qwen3_5Tokenizer", {}),
    "gemma2": ("GemmaTokenizer", {}),
}


def warnings_of(source, **calibration):
    """Returns what a plan says of the model, by default for a job that gives text."""
    text = source.parent / "text.txt"
    text.write_text("A text. " * 400)
    file = source.parent / "plan.json"
    calibration = calibration or {"text": [str(text)], "seqlen": 32, "samples": 2}
    file.write_text(json.dumps(job_of(source, "planned", calibration=calibration)))
    plan = subprocess.run([WORKER.with_name("dotresize"), "plan", file, "-o", "json"], capture_output=True, text=True, check=True)
    return "\n".join(json.loads(plan.stdout)["warnings"])


@pytest.mark.parametrize("family", STEPS)
def test_a_plan_warns_of_a_class_that_splits_otherwise(tmp_path, family):
    """The class's own file is none that it splits otherwise."""
    class_name, settings = STEPS[family]
    source = source_of(tmp_path, family)
    with_tokenizer(source, of_words() if class_name == "LlamaTokenizer" else byte_level(), NAMED | settings | {"tokenizer_class": class_name})
    rebuilt = AutoTokenizer.from_pretrained(source)
    assert type(rebuilt).__name__ == class_name
    said = f"tokenizer.json splits text otherwise than {class_name}, which transformers 5 takes"
    assert said in warnings_of(source)
    assert said not in warnings_of(source, **job_of(source, "tokens")["calibration"])
    rebuilt.backend_tokenizer.save(str(source / "tokenizer.json"))
    assert "tokenizer.json" not in warnings_of(source)


@pytest.mark.parametrize("class_name", ["LlamaTokenizer", "GPT2Tokenizer"])
@pytest.mark.parametrize("content", ["no JSON", "too much"])
def test_a_tokenizer_that_cannot_be_read_is_left_to_those_that_need_it(tmp_path, class_name, content):
    source = source_of(tmp_path, "llama")
    (source / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": class_name}))
    (source / "tokenizer.json").write_text(content)
    if content == "too much":
        os.truncate(source / "tokenizer.json", (1 << 30) + 1)  # without bytes on the disk
    assert warnings_of(source, **job_of(source, "tokens")["calibration"]) == ""
