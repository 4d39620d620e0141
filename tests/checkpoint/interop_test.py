"""Checks that we read files of Python's safetensors bit for bit, and that it reads ours.

Usage: interop_test.py COPY_CHECKPOINT
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]


def bits(tensor):
    return tensor.contiguous().view(torch.uint8) if tensor.dim() else tensor.reshape(1).view(torch.uint8)


def read_shards(directory):
    """Returns all tensors of a sharded directory, checked against its index."""
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    tensors = {}
    for file in sorted(set(index["weight_map"].values())):
        with safe_open(directory / file, "pt") as shard:
            assert shard.metadata() == {"format": "pt"}, shard.metadata()
            for name in shard.keys():
                assert index["weight_map"][name] == file, name
                tensors[name] = shard.get_tensor(name)
    assert index["weight_map"].keys() == tensors.keys()
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors.values())
    assert index["metadata"]["total_parameters"] == sum(t.numel() for t in tensors.values())
    return tensors


def assert_copy_equals(program, source, expected, max_shard_bytes):
    with tempfile.TemporaryDirectory() as copy:
        subprocess.run([program, source, copy, str(max_shard_bytes)], check=True)
        found = read_shards(Path(copy))
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype, name
            assert found[name].shape == tensor.shape, name
            assert torch.equal(bits(found[name]), bits(tensor)), name


def all_dtypes():
    torch.manual_seed(7)
    tensors = {}
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for shape in ((), (1,), (3, 5), (0, 4), (2, 3, 4)):
            tensors[f"{dtype}.{len(tensors)}.\u03b3"] = torch.randn(shape).to(dtype)
    return tensors


def main(program):
    with tempfile.TemporaryDirectory() as directory:
        tensors = all_dtypes()
        save_file(tensors, Path(directory) / "model.safetensors", {"format": "pt", "note": "\u00e9"})
        for max_shard_bytes in (1, 100, 1 << 30):
            assert_copy_equals(program, directory, tensors, max_shard_bytes)
    example = ROOT / "examples" / "docs-llama"
    with safe_open(example / "model.safetensors", "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
    assert_copy_equals(program, example, weights, 3_000_000)


if __name__ == "__main__":
    main(sys.argv[1])
