"""Changes to a model directory. Each function returns a bend: what takes a Place and changes it."""

import json
import os
import shutil

import torch
from safetensors.torch import load_file
from situations import store

ABSENT = object()


def keys(**changes):
    """Sets keys of config.json; ABSENT removes one."""

    def bend(place):
        config = place.config | changes
        place.config = {key: value for key, value in config.items() if value is not ABSENT}

    return bend


def rotary(settings=ABSENT, **top_level):
    """Puts the rotary settings where transformers 4 has them: in rope_scaling, beside a rope_theta."""
    return keys(rope_parameters=ABSENT, rope_scaling=settings, **top_level)


def tensors(change):
    """Replaces the tensors by those that `change` makes of them, or changes in place."""

    def bend(place):
        before = place.tensors
        place.tensors = change(before) or before

    return bend


def stored_as(dtype, but=None, otherwise="float32"):
    """Stores the tensors in this dtype; those with one of the words in `but` in another."""
    words = but or ()
    return tensors(lambda all_of_them: {
        name: tensor.to(getattr(torch, otherwise if any(word in name for word in words) else dtype)) for name, tensor in all_of_them.items()
    })  # fmt: skip


def scaled(word, factor):
    """Multiplies the tensors that have this word in their names."""
    return tensors(lambda all_of_them: {name: tensor * factor if word in name else tensor for name, tensor in all_of_them.items()})


def in_layers(suffix, tensor):
    """Adds a tensor to both layers."""
    return tensors(lambda all_of_them: all_of_them.update({f"model.layers.{layer}.{suffix}": tensor.clone() for layer in (0, 1)}))


def removed(*words):
    """Removes the tensors that have one of these words in their names."""
    return tensors(lambda all_of_them: {name: tensor for name, tensor in all_of_them.items() if not any(word in name for word in words)})


def renamed(old, new):
    return tensors(lambda all_of_them: {name.replace(old, new): tensor for name, tensor in all_of_them.items()})


def prefixed(prefix):
    return tensors(lambda all_of_them: {prefix + name: tensor for name, tensor in all_of_them.items()})


def own_keys_of_heads(place):
    """Repeats the keys and values of shared heads, so that each head has its own. The model stays the same."""
    config = place.config
    repeats, channels = config["num_attention_heads"] // config["num_key_value_heads"], config["hidden_size"] // config["num_attention_heads"]
    place.tensors = {
        name: tensor.unflatten(0, (-1, channels)).repeat_interleave(repeats, 0).flatten(0, 1) if "k_proj" in name or "v_proj" in name else tensor
        for name, tensor in place.tensors.items()
    }  # fmt: skip
    keys(num_key_value_heads=config["num_attention_heads"])(place)


def equal_head(tensors_by_name):
    tensors_by_name["lm_head.weight"] = tensors_by_name["model.embed_tokens.weight"].clone()


def biases(modules, block="self_attn"):
    """Adds biases to projections of the attention or the MLP."""

    def change(all_of_them):
        generator = torch.Generator().manual_seed(2)
        for name in list(all_of_them):
            if any(f"{block}.{module}_proj.weight" in name for module in modules):
                rows = len(all_of_them[name])
                all_of_them[name.replace(".weight", ".bias")] = 0.3 * torch.randn(rows, generator=generator)

    return tensors(change)


def fused_experts(place):
    """Stacks the experts as transformers 5 has them in memory: gate_up_proj [E, 2I, H] and down_proj [E, H, I]."""
    stored = place.tensors
    for layer in (0, 1):
        at = f"model.layers.{layer}.mlp.experts."
        gate, up, down = (torch.stack([stored.pop(f"{at}{expert}.{part}_proj.weight") for expert in range(4)]) for part in ("gate", "up", "down"))
        stored |= {at + "gate_up_proj": torch.cat([gate, up], dim=1), at + "down_proj": down}
    place.tensors = stored


def shards(count, unlisted=(), listed=(), missing=(), keep_single=False):
    """Divides the file into shards with an index. `unlisted`, `listed`: extra names, each on one side alone; `missing`: shards."""

    def bend(place):
        whole = place.tensors
        names = list(whole)
        if not keep_single:
            os.remove(place / "model/model.safetensors")
        index = {}
        for number in range(count):
            file = f"model-{number + 1:05}-of-{count:05}.safetensors"
            part = {name: whole[name] for name in names[number::count]}
            index |= dict.fromkeys(part, file)
            if number == 0:
                part |= {name: torch.ones(4) for name in unlisted}
                index |= dict.fromkeys(listed, file)
            if number not in missing:
                store(place / "model" / file, part)
        place.write("model/model.safetensors.index.json", {"metadata": {}, "weight_map": index})

    return bend


def stale_shards(count):
    """Leaves a second set of shards beside the indexed one, with the same names and other values."""

    def bend(place):
        names = list(place.tensors)
        for number in range(count):
            other = {name: torch.full_like(place.tensors[name], 0.01) for name in names[number::count]}
            store(place / "model" / f"model-{number + 1:05}-of-{count:05}.safetensors", other)

    return bend


def file(name, content):
    """Writes a file of the place: a text, bytes, or JSON."""
    return lambda place: place.write(name, content)


def without(*names):
    def bend(place):
        for name in names:
            os.remove(place / name)

    return bend


def leftover(*names):
    """Leaves model.safetensors with these tensors, or with all of them, beside the shards."""

    def bend(place):
        stored = place.tensors
        place.tensors = {name: stored[name] for name in names or stored}

    return bend


def duplicated(place):
    """Stores a tensor of the first shard in the second one too, with other values. The index names the first."""
    first, second = (place / f"model/model-0000{number}-of-00002.safetensors" for number in (1, 2))
    name, tensor = next(iter(load_file(first).items()))
    store(second, load_file(second) | {name: 0.5 * tensor})


def checkpoint_wrapped(place):
    """Names the modules of a layer as a wrapper for activation checkpoints does."""
    renamed("layers.0.", "layers.0._checkpoint_wrapped_module.")(place)


def moved(old, new):
    def bend(place):
        (place / new).parent.mkdir(parents=True, exist_ok=True)
        os.rename(place / old, place / new)

    return bend


def linked(name, target):
    return lambda place: os.symlink(target, place / name)


def hub_cache(place):
    """Puts the model where `hf download` keeps it, and leaves model/ as the directory above the snapshots."""
    snapshot = "hub/snapshots/0123456789abcdef0123456789abcdef01234567"
    moved("model", snapshot)(place)
    file("hub/refs/main", snapshot.split("/")[-1])(place)
    os.rename(place / "hub", place / "model")


def metadata(key, value):
    """Replaces the metadata of the safetensors file."""
    return lambda place: store(place / "model/model.safetensors", place.tensors, (key, value))


def cut_off(name, share):
    def bend(place):
        path = place / name
        os.truncate(path, int(path.stat().st_size * share))

    return bend


def dtype_without_name(name):
    """Adds an entry without data to the header, whose dtype is an empty text."""

    def bend(place):
        path = place / "model/model.safetensors"
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end]) | {name: {"dtype": "", "shape": [], "data_offsets": [0, 0]}}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])

    return bend


def gptq(place):
    """Replaces the projections by what GPTQModel writes, without the key of config.json that says so."""
    stored = place.tensors
    for name in [name for name in stored if "_proj.weight" in name]:
        rows, columns = stored.pop(name).shape
        at = name.removesuffix("weight")
        stored |= {at + "qweight": torch.zeros(columns // 8, rows, dtype=torch.int32), at + "qzeros": torch.zeros(1, rows // 8, dtype=torch.int32),
                   at + "scales": torch.ones(1, rows, dtype=torch.float16), at + "g_idx": torch.zeros(columns, dtype=torch.int32)}  # fmt: skip
    place.tensors = stored


def awq(place):
    """Likewise with AutoAWQ's layout, which packs along the other dimension and has no g_idx."""
    stored = place.tensors
    for name in [name for name in stored if "_proj.weight" in name]:
        rows, columns = stored.pop(name).shape
        at = name.removesuffix("weight")
        stored |= {at + "qweight": torch.zeros(columns, rows // 8, dtype=torch.int32), at + "qzeros": torch.zeros(1, rows // 8, dtype=torch.int32),
                   at + "scales": torch.ones(1, rows, dtype=torch.float16)}  # fmt: skip
    place.tensors = stored


def mlx(place):
    """Likewise with the 4-bit layout of MLX: packed uint32 in place of the weight, with scales and biases."""
    stored = place.tensors
    for name in [name for name in stored if "_proj.weight" in name or "embed" in name]:
        rows, columns = stored[name].shape
        at = name.removesuffix("weight")
        stored |= {name: torch.zeros(rows, columns // 8, dtype=torch.uint32), at + "scales": torch.ones(rows, 1, dtype=torch.float16),
                   at + "biases": torch.zeros(rows, 1, dtype=torch.float16)}  # fmt: skip
    store(place / "model/model.safetensors", stored, ("format", "mlx"))


def bitsandbytes(place):
    """Likewise with the 4-bit layout of bitsandbytes: bytes, with absmax and quant_map beside them."""
    stored = place.tensors
    for name in [name for name in stored if "_proj.weight" in name]:
        count = stored[name].numel()
        stored |= {name: torch.zeros(count // 2, 1, dtype=torch.uint8), name + ".absmax": torch.ones(count // 64),
                   name + ".quant_map": torch.zeros(16), name + ".quant_state.bitsandbytes__nf4": torch.zeros(80, dtype=torch.uint8)}  # fmt: skip
    place.tensors = stored


def fp8(place):
    """Likewise with weights of eight bits and a scale for each matrix."""
    stored = place.tensors
    for name in [name for name in stored if "_proj.weight" in name]:
        stored |= {name: stored[name].to(torch.float8_e4m3fn), name + "_scale": torch.ones(1)}
    place.tensors = stored


def unmerged_lora(place):
    """Names of a PEFT model that was saved whole: adapters beside the layers that they change."""
    stored = place.tensors
    for name in [name for name in stored if "q_proj.weight" in name]:
        rows, columns = stored[name].shape
        at = name.removesuffix("weight")
        stored[at + "base_layer.weight"] = stored.pop(name)
        stored |= {at + "lora_A.default.weight": torch.ones(2, columns), at + "lora_B.default.weight": torch.ones(rows, 2)}
    place.tensors = {f"base_model.model.{name}": tensor for name, tensor in stored.items()}


def adapter(place):
    """Puts a LoRA adapter into the directory of the full weights, as trainers do."""
    lora = {}
    for name, tensor in place.tensors.items():
        if "q_proj.weight" in name:
            at = f"base_model.model.{name.removesuffix('weight')}"
            lora |= {at + "lora_A.weight": torch.full((2, tensor.shape[1]), 0.3), at + "lora_B.weight": torch.full((tensor.shape[0], 2), 0.3)}
    store(place / "model/adapter_model.safetensors", lora)
    place.write("model/adapter_config.json", {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM",
                                              "base_model_name_or_path": "org/name"})  # fmt: skip


def split_by(pattern, **model):
    """Lets the tokenizer split texts by a regular expression."""

    def bend(place):
        document = json.loads((place / "model/tokenizer.json").read_text())
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, bytes_alone]}
        document["model"] |= model
        place.write("model/tokenizer.json", document)

    return bend


def token_beyond_the_vocabulary(place):
    """Adds a token to the tokenizer without a row of the embedding."""
    document = json.loads((place / "model/tokenizer.json").read_text())
    rows, vocabulary = place.config["vocab_size"], document["model"]["vocab"]
    vocabulary |= {f"unused {number}": number for number in range(len(vocabulary), rows)}
    added = {"id": rows, "content": "<pad>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document["added_tokens"].append(added | flags)
    place.write("model/tokenizer.json", document)


def vocabulary_and_merges(place):
    """Leaves the two files of a byte-level tokenizer that tokenizer.json came to replace."""
    document = json.loads((place / "model/tokenizer.json").read_text())
    place.write("model/vocab.json", document["model"]["vocab"])
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in document["model"]["merges"]]
    place.write("model/merges.txt", "#version: 0.2\n" + "\n".join(merges) + "\n")
    os.remove(place / "model/tokenizer.json")


def jsonl(column, values):
    """Returns JSON lines with one key."""
    return "".join(json.dumps({column: value}) + "\n" for value in values)


def parquet(name, column, values):
    """Writes a table with one column."""

    def bend(place):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({column: values}), place / name)

    return bend


def job(**sections):
    """Changes sections of job.json; None removes a key."""

    def bend(place):
        document = json.loads((place / "job.json").read_text())
        for section, values in sections.items():
            if not isinstance(values, dict):
                document[section] = values
                continue
            merged = document.get(section, {}) | values
            document[section] = {key: value for key, value in merged.items() if value is not None}
        place.write("job.json", document)

    return bend


def text_job(place):
    """Lets the job calibrate on text.txt."""
    job(calibration={"tokens": None, "text": ["text.txt"], "samples": 4, "seqlen": 32})(place)


def folder(name, mode=0o755):
    def bend(place):
        (place / name).mkdir()
        (place / name).chmod(mode)

    return bend


def copied(name, new):
    return lambda place: shutil.copy(place / name, place / new)

