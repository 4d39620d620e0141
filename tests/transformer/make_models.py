"""Makes small random models of every family and their logits with transformers.

usage: make_models.py OUT_DIR

Each case becomes OUT_DIR/NAME: the model as transformers saves it, and expected.safetensors with "ids" [batch, tokens] int64,
"logits" [batch, tokens, vocab] float32, "labels" [batch, tokens] and "gradients" [junctions, batch, tokens, hidden_size]
float32. The gradients are those of the summed loss of "labels" with respect to the residual stream.
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers
from model_cases import BASE, CASES
from safetensors.torch import save_file

BATCH, TOKENS = 2, 80


def as_transformers_4(config: dict) -> dict:
    rope = config.pop("rope_parameters")
    if config["model_type"] == "gemma":
        config["hidden_act"] = "gelu"
    if "full_attention" in rope and config["model_type"] == "gemma3_text":
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        for key in ("layer_types", "hidden_activation"):
            del config[key]
    rope = rope.get("full_attention", rope)
    for key in ("rope_theta", "partial_rotary_factor"):
        if key in rope:
            config[key] = rope.pop(key)
    if rope["rope_type"] == "longrope":  # phi3's may have only these three keys
        original = rope.pop("original_max_position_embeddings")
        config["original_max_position_embeddings"] = original
        rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = None if rope.get("rope_type") == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    if "num_local_experts" in config and config["model_type"] not in ("mixtral", "gpt_oss"):
        key = "n_routed_experts" if config["model_type"] == "glm4_moe" else "num_experts"
        config[key] = config.pop("num_local_experts")
    config["transformers_version"] = "4.46.0"
    return config


def make_model(name: str, options: dict) -> torch.nn.Module:
    config = transformers.CONFIG_MAPPING[name.split("-")[0]](**BASE | options)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name:
            parameter.data.uniform_(0.5, 1.5)
            adds_one = name.startswith(("gemma", "qwen3_5")) and "linear_attn" not in parameter_name
            parameter.data -= float(adds_one)
        elif parameter_name.endswith("bias"):
            parameter.data.normal_(0, 0.3)
        elif parameter_name.endswith("sinks"):
            parameter.data.normal_(0, 1)
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith("e_score_correction_bias"):
            buffer.normal_(0, 0.3)
    return model.float().eval()


def gradients(model: torch.nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    junctions = []

    def keep(_, arguments):
        arguments[0].retain_grad()
        junctions.append(arguments[0])

    readers = []  # of the stream: what each layer and each MLP begins with
    for layer in model.model.layers:
        if not hasattr(layer, "input_layernorm"):
            readers += [layer, layer.mlp]
        else:
            before_mlp = getattr(layer, "pre_feedforward_layernorm", layer.post_attention_layernorm)
            readers += [layer.input_layernorm, before_mlp]
    hooks = [reader.register_forward_pre_hook(keep) for reader in (*readers, model.model.norm)]
    logits = model(ids, use_cache=False).logits.flatten(0, 1)
    torch.nn.functional.cross_entropy(logits, labels.flatten(), reduction="sum").backward()
    for hook in hooks:
        hook.remove()
    return torch.stack([x.grad for x in junctions])


def make_case(directory: pathlib.Path, seed: int, options: dict) -> None:
    options = dict(options)
    version_4 = options.pop("v4", False)
    torch.manual_seed(seed)
    model = make_model(directory.name, options)
    ids = torch.randint(0, BASE["vocab_size"], (BATCH, TOKENS))
    with torch.inference_mode():
        logits = model(ids).logits
    labels = torch.randint(0, BASE["vocab_size"], (BATCH, TOKENS))
    expected = {
        "ids": ids,
        "logits": logits.clone(),
        "labels": labels,
        "gradients": gradients(model, ids, labels),
    }
    model.save_pretrained(directory)
    save_file(expected, directory / "expected.safetensors")
    if version_4:
        path = directory / "config.json"
        path.write_text(json.dumps(as_transformers_4(json.loads(path.read_text())), indent=2))


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    for seed, (name, options) in enumerate(CASES.items()):
        make_case(out / name, seed, options)


if __name__ == "__main__":
    main()
