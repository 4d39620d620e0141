"""A custom output without maps as a directory of model type nemotron-nas (DeciLM), whose layers have features of their own,
or lack a sublayer: what vLLM computes with code of its own.

    python export_nemotron_nas.py MODEL_DIR OUT_DIR [--json]

Standard input has the description of the model that `dotresize export` makes; this program reads nothing else but the files
that it names. Tensors keep names and dtype. Narrower heads are filled up with zeros. OUT_DIR must not exist, and appears
whole or not at all; tokenizer, chat template and settings of generation are copied. Its one file of code,
configuration_decilm.py, reads config.json: transformers knows no such model type. Progress is one line on stderr for each file
of weights.
Exit codes and errors as export_gguf.py.
"""

import shutil
import sys
from pathlib import Path

from exporting import DTYPES, SIZES, InputError, Parser, attention_shapes, attentions_of, refuse_maps, run, value_filling
from model_directory import Shards, whole_or_nothing, write_json

OWN_KEYS = ("source_model_type", "junction_widths", "junction_groups", "shortcut_ranks", "shortcut_factors", *SIZES,
            "embedding_projection", "head_projection", "norm_weights", "sliding_window")  # fmt: skip
CONFIGURATION = '''"""Configuration of a model of type nemotron-nas: a llama whose layers have sizes of their own."""

from transformers import PretrainedConfig


class Block(dict):
    """Settings of a layer, or of one of its sublayers, by key and by attribute."""

    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


class DeciLMConfig(PretrainedConfig):
    """block_configs: of each layer `attention` (n_heads_in_group: query heads that share a key, or no_op) and `ffn`
    (intermediate_size, or no_op)."""

    model_type = "nemotron-nas"

    def __init__(self, block_configs=(), **kwargs):
        self.block_configs = [
            Block({part: Block(settings) for part, settings in block.items()}) for block in block_configs
        ]
        super().__init__(**kwargs)
'''


def refuse_what_decilm_lacks(model):
    if not model.config["compressed"]:
        raise InputError(f"{model.directory}: not a custom output: engines load it as it is")
    refuse_maps(model, "nemotron-nas")
    if any(model.config["sliding_windows"]):
        raise InputError(f"{model.directory}: a nemotron-nas has no sliding window")


class Layers:
    """Sublayers of each layer, and what the form makes of them."""

    def __init__(self, config):
        self.config = config
        self.attends = attentions_of(config)

    def blocks(self):
        """vLLM's first layer must have an attention: one that was removed is there with zeros."""
        group = self.config["num_attention_heads"] // self.config["num_key_value_heads"]
        for layer, (features, attends) in enumerate(zip(self.config["intermediate_sizes"], self.attends, strict=True)):
            attention = {"no_op": False, "n_heads_in_group": group} if attends or layer == 0 else {"no_op": True}
            ffn = {"no_op": False, "intermediate_size": features} if features else {"no_op": True}
            yield {"attention": attention, "ffn": ffn}

    def added(self):
        """Name and shape of the first layer's attention, if it was removed."""
        if self.attends[0]:
            return
        yield "model.layers.0.input_layernorm.weight", (self.config["hidden_size"],)
        for part, shape in attention_shapes(self.config).items():
            yield f"model.layers.0.self_attn.{part}_proj.weight", shape
            if self.config["attention_bias"]:
                yield f"model.layers.0.self_attn.{part}_proj.bias", shape[:1]


def config_of(model, layers):
    kept = {key: value for key, value in model.settings.items() if key not in OWN_KEYS}
    return kept | {
        "architectures": ["DeciLMForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_decilm.DeciLMConfig"},
        "block_configs": list(layers.blocks()),
        "model_type": "nemotron-nas",
    }


def tensors_of(model, layers):
    """(name, tensor) of all tensors of the directory, one at a time."""
    import torch

    dtype = getattr(torch, DTYPES[model.tensors["model.embed_tokens.weight"]["dtype"]])
    for name, shape in layers.added():
        yield name, torch.zeros(shape, dtype=dtype)
    for name in sorted(model.tensors):
        filling, values = value_filling(name, model.config), model.get(name)
        yield name, filling.fill(values).contiguous() if filling else values


def export(model, out):
    refuse_what_decilm_lacks(model)
    layers = Layers(model.config)
    with whole_or_nothing(out, model) as partial:
        shards = Shards(partial, "export_nemotron_nas")
        for name, tensor in tensors_of(model, layers):
            shards.add(name, tensor)
        count = shards.finish()
        write_json(partial / "config.json", config_of(model, layers))
        (partial / "configuration_decilm.py").write_text(CONFIGURATION, encoding="utf-8")
        for name in model.companions:
            shutil.copyfile(model.directory / name, partial / name)
    return {"file": str(out), "type": "nemotron-nas", "tensors": count, "bytes": shards.bytes}


def main(arguments):
    parser = Parser(prog="export_nemotron_nas.py")
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    return run(options, lambda model: export(model, options.out))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
