"""Random models, and `dotresize export` of them."""

import json
import os
import shutil
import subprocess

import torch
from forking import HELPERS, forking_python
from gguf import GGUFReader
from running import BUILD, EXAMPLE
from transformers import AutoConfig, AutoModelForCausalLM

MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 768, "norm_topk_prob": True, "head_dim": 16}
VOCABULARY = 512  # of the example's tokens: readers of GGUF files take long for each token
TINY = {"hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": VOCABULARY, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}  # fmt: skip


def tokenizer_document(vocabulary=VOCABULARY):
    """Returns the example's tokenizer.json with its first tokens alone."""
    document = json.loads((EXAMPLE / "tokenizer.json").read_text())
    model = document["model"]
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < vocabulary}
    model["merges"] = [merge for merge in model["merges"] if "".join(merge) in model["vocab"]]
    return document


def add_tokenizer(directory):
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer_document()))
    shutil.copy(EXAMPLE / "tokenizer_config.json", directory)


def make_model(directory, family, **changes):
    """Makes a random model with a part of the example's tokenizer."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family.split()[0], **{**TINY, **changes})
    model = AutoModelForCausalLM.from_config(config).float()
    for parameter in model.parameters():  # norms and biases that are not the defaults
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(directory)
    add_tokenizer(directory)
    return model


def change_json(file, removed=(), **changes):
    content = json.loads(file.read_text())
    file.write_text(json.dumps({key: value for key, value in (content | changes).items() if key not in removed}))


def export(directory, out, *options, to="gguf", exit_code=0, env=None, **settings):
    """Returns what was printed, or the errors if it fails as it should. env: for an exporter in a Python of its own."""
    command = [BUILD / "bin" / "dotresize", "export", directory, out, "--to", to, *options]
    env = env or os.environ | {"DOTRESIZE_PYTHON": forking_python(HELPERS)}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, env=env, **settings)
    assert done.returncode == exit_code, done.stderr
    return done.stdout if exit_code == 0 else done.stderr


def read_back(file, **settings):
    return AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32, **settings).eval()


def content_of(file):
    """Settings and tensors of a GGUF file, but not its name."""
    reader = GGUFReader(file)
    settings = {key: field.contents() for key, field in reader.fields.items() if key != "general.name" and not key.startswith("GGUF.")}
    return settings, {tensor.name: (tensor.tensor_type.name, tuple(tensor.shape), tensor.data.tobytes()) for tensor in reader.tensors}
