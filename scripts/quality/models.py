"""The models of the table: the example, and a tiny one of each other family, trained here on the bytes of its text."""

import concurrent.futures
import json
import math
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path

from paper.programs import ROOT
from real.model import most_features, parameters_of

EXAMPLE = "docs-llama"
EXAMPLE_DIR = ROOT / "examples" / EXAMPLE
TOKENS = {name: ROOT / "tests" / "data" / f"{name}.safetensors" for name in ("calibration", "evaluation")}

COMMON = {
    "hidden_size": 48, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 12, "vocab_size": 256, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "tie_word_embeddings": False,
}  # fmt: skip
FAMILIES = {
    "mistral": {"sliding_window": None},
    "phi3": {"sliding_window": None},
    "qwen2": {},
    "qwen3": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 64, "sliding_window": None},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "mlp_only_layers": []},
}
SEQLEN = 256
WINDOWS = {"calibration": 64, "evaluation": 32}
STEPS = 500
BATCH = 16
LEARNING_RATE = 4e-3
WARM_UP = 20


@dataclass(frozen=True)
class Model:
    name: str
    directory: Path
    calibration: Path
    evaluation: Path
    round_to: int
    stock_output: tuple  # keys of the section output of its stock formats

    @property
    def is_example(self):
        return self.name == EXAMPLE

    def features_at(self, size):
        """The most features of each MLP, or of each expert, with which the model has at most this fraction of its parameters."""
        config = json.loads((self.directory / "config.json").read_text(encoding="utf-8"))
        experts = config.get("num_local_experts", config.get("num_experts", 1))
        features = config.get("moe_intermediate_size", config["intermediate_size"])
        of_a_feature = 3 * config["hidden_size"] * config["num_hidden_layers"] * experts  # gate, up and down
        return most_features(size, parameters_of(self.directory), of_a_feature, features, self.round_to)


def example():
    return Model(EXAMPLE, EXAMPLE_DIR, TOKENS["calibration"], TOKENS["evaluation"], 2, (("architecture", "mistral"),))


def tiny_model(family, folder):
    directory = folder / family
    return Model(f"tiny {family}", directory, folder / "calibration.safetensors", folder / "evaluation.safetensors", 1, ())


def text_of(name):
    """The text of a token file of tests/data, as bytes."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tokens = load_file(TOKENS[name])["tokens"].flatten().tolist()
    return Tokenizer.from_file(str(EXAMPLE_DIR / "tokenizer.json")).decode(tokens).encode()


def write_tokens(folder):
    """Windows spread evenly over each text. The models are trained on the text of the calibration."""
    import torch
    from safetensors.torch import save_file

    for name, windows in WINDOWS.items():
        text = torch.frombuffer(bytearray(text_of(name)), dtype=torch.uint8)
        whole = text[: len(text) // SEQLEN * SEQLEN].view(-1, SEQLEN)
        rows = torch.arange(windows) * len(whole) // windows
        save_file({"tokens": whole[rows].long()}, folder / f"{name}.safetensors")


def train(family, directory, steps):
    """Trains with one thread, so that the model is the same on any number of cores."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family](**json.loads(json.dumps({**COMMON, **FAMILIES[family]})))
    model = AutoModelForCausalLM.from_config(config).float()
    text = torch.frombuffer(bytearray(text_of("calibration")), dtype=torch.uint8).long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))
    )
    for _ in range(steps):
        starts = torch.randint(len(text) - SEQLEN, (BATCH,))
        ids = torch.stack([text[start : start + SEQLEN] for start in starts.tolist()])
        logits = model(ids).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
    model.save_pretrained(directory)


def tiny_models(families, folder):
    """The models of these families, trained unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokens(folder)
    missing = [family for family in families if not (folder / family / "config.json").is_file()]
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(train, family, folder / family, STEPS) for family in missing]:
            done.result()
    return [tiny_model(family, folder) for family in families]


def models_named(names, folder):
    """The models of these names, in the order of the table."""
    families = [family for family in FAMILIES if f"tiny {family}" in names]
    first = [example()] if EXAMPLE in names else []
    return first + (tiny_models(families, folder) if families else [])


NAMES = (EXAMPLE, *(f"tiny {family}" for family in FAMILIES))
