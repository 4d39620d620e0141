"""Random models, and `dotresize export` of them."""

import json
import subprocess

import torch
from gguf import GGUFReader
from running import BUILD, EXAMPLE
from transformers import AutoConfig, AutoModelForCausalLM

TINY = {"hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 4096, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}  # fmt: skip
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def add_tokenizer(directory):
    for name in TOKENIZER_FILES:
        (directory / name).write_bytes((EXAMPLE / name).read_bytes())


def make_model(directory, family, **changes):
    """Makes a random model with the example's tokenizer."""
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


def export(directory, out, *options, to="gguf", exit_code=0, **settings):
    """Returns what was printed, or the errors if it fails as it should."""
    command = [BUILD / "bin" / "dotresize", "export", directory, out, "--to", to, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, **settings)
    assert done.returncode == exit_code, done.stderr
    return done.stdout if exit_code == 0 else done.stderr


def read_back(file, **settings):
    return AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32, **settings).eval()


def content_of(file):
    """Settings and tensors of a GGUF file, but not its name."""
    reader = GGUFReader(file)
    settings = {key: field.contents() for key, field in reader.fields.items() if key != "general.name" and not key.startswith("GGUF.")}
    return settings, {tensor.name: (tensor.tensor_type.name, tuple(tensor.shape), tensor.data.tobytes()) for tensor in reader.tensors}
