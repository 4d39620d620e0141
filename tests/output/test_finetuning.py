"""Tests fine-tuning of a narrowed model with PEFT: LoRA on the usual module names, like for any model."""

import pytest
import torch
from layer_sizes import with_layer_sizes
from narrowed_models import assert_same_logits
from narrowing import fold, output_keys, random_maps, tie, write_output
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_models import random_dense, tiny_keys
from transformers import AutoModelForCausalLM

SOURCES = {
    "llama": (
        tiny_keys("llama"),
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    ),
    "llama-tied": (tiny_keys("llama", tie_word_embeddings=True), ["q_proj", "down_proj"]),
    "phi3": (tiny_keys("phi3"), ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
    "qwen3 without maps": (tiny_keys("qwen3"), ["q_proj", "k_proj", "gate_proj", "up_proj", "down_proj"]),
}
WIDTHS = [32, 40, 24, 31, 16, 36, 48]


@pytest.fixture(params=SOURCES)
def base(tmp_path, request):
    """Returns a narrowed model's directory and the names of its projections."""
    keys, projections = SOURCES[request.param]
    if "without maps" in request.param:
        with_layer_sizes(tmp_path / "model", keys, [20, 31, 7], [5, 12, 1])
        return tmp_path / "model", projections
    dense, maps = random_dense(keys), random_maps(keys["hidden_size"], WIDTHS)
    tensors, ends = fold(dense, maps), {}
    if keys["tie_word_embeddings"]:
        tensors, ends = tie(tensors, dense, maps)
    return write_output(tmp_path / "model", tensors, output_keys(keys, WIDTHS) | ends), projections


def load(directory):
    return AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True).eval()


def some_ids():
    return torch.randint(2, 97, (4, 17), generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def logits(model):
    return model(some_ids()).logits


def fine_tuned(directory, projections):
    torch.manual_seed(0)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=projections, task_type="CAUSAL_LM")
    model = get_peft_model(load(directory), lora)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    losses = []
    for _ in range(12):
        loss = model(input_ids=some_ids(), labels=some_ids()).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return model.eval(), losses


def test_lora_learns_and_leaves_the_model_alone(base):
    directory, projections = base
    model, losses = fine_tuned(directory, projections)
    assert losses[-1] < 0.7 * losses[0]
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in trained)
    assert len(trained) == 2 * 3 * len(projections)  # A and B in each of three layers
    with model.disable_adapter():
        assert_same_logits(logits(model), logits(load(directory)))


def test_a_saved_adapter_loads_onto_the_narrowed_model(base, tmp_path):
    model, _ = fine_tuned(*base)
    model.save_pretrained(tmp_path / "adapter")
    again = PeftModel.from_pretrained(load(base[0]), tmp_path / "adapter").eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)


def test_a_merged_adapter_gives_a_narrowed_model(base, tmp_path):
    model, _ = fine_tuned(*base)
    expected = logits(model)
    merged = model.merge_and_unload()
    assert type(merged) is type(load(base[0]))
    torch.testing.assert_close(logits(merged), expected, atol=1e-4, rtol=0)
    merged.save_pretrained(tmp_path / "merged")
    assert_same_logits(logits(load(tmp_path / "merged")), logits(merged))
