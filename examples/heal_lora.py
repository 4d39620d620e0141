"""Heals an output of dotresize for as many steps as you like, outside of a job: LoRA (Hu et al., 2021) by PEFT, trained on
KL(dense || output) over windows of a token file, then merged into the weights.

    .venv/bin/python examples/heal_lora.py DENSE OUTPUT TOKENS.safetensors HEALED [--steps N] [--windows N] [--seqlen N] [--rank R] [--rate X]

TOKENS has an integer tensor "tokens", [n] or [samples, seqlen], as calibration.tokens of a job. Both models are in memory.
"""
import argparse
import math
import pathlib
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def windows_of(path, count, seqlen):
    """[count, seqlen] ids, spread evenly over the file."""
    tokens = load_file(path)["tokens"].long().flatten()
    whole = len(tokens) // seqlen
    chosen = [index * whole // count for index in range(count)]
    return torch.stack([tokens[window * seqlen : (window + 1) * seqlen] for window in chosen])


def adapted(model, rank):
    """The model with LoRA on all projections of its layers that are torch's own."""
    linear = {name for name, module in model.named_modules() if type(module) is torch.nn.Linear and ".layers." in name}
    names = [name for name in linear if "shortcut" not in name]
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names, task_type="CAUSAL_LM"))


def divergence(dense, model, ids):
    """Mean KL(dense || model) in nats a token."""
    with torch.no_grad():
        wanted = dense(ids).logits.float().log_softmax(-1)
    found = model(ids).logits.float().log_softmax(-1)
    return torch.nn.functional.kl_div(found, wanted, log_target=True, reduction="sum") / ids.numel()


def train(dense, model, windows, steps, rate):
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    adam = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
    for step in range(steps):
        adam.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        kl = divergence(dense, model, windows[step % len(windows)][None])
        adam.zero_grad()
        kl.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        adam.step()
        if step % 20 == 0 or step + 1 == steps:
            print(f"step {step + 1} of {steps}: KL {kl.item():.4f}", flush=True)


def save(model, source, target):
    """The merged weights in their dtype, with what else the directory has but its report, which is of the unhealed model."""
    model.save_pretrained(target)
    for path in pathlib.Path(source).iterdir():
        if path.suffix in (".py", ".json") and not (pathlib.Path(target) / path.name).exists() and "index" not in path.name:
            shutil.copy(path, target)


def load(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, trust_remote_code=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("dense")
    parser.add_argument("output")
    parser.add_argument("tokens")
    parser.add_argument("healed")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--seqlen", type=int, default=1024)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rate", type=float, default=5e-4)
    options = parser.parse_args()
    torch.manual_seed(0)
    dense, output = load(options.dense).eval(), load(options.output)
    dtype = AutoModelForCausalLM.from_pretrained(options.output, dtype="auto", trust_remote_code=True).dtype
    model = adapted(output, options.rank)
    train(dense, model, windows_of(options.tokens, options.windows, options.seqlen), options.steps, options.rate)
    save(model.merge_and_unload().to(dtype), options.output, options.healed)


if __name__ == "__main__":
    main()
