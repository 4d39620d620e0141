"""The cost of models: milliseconds a token, and GPUs to run and to compress them."""

import json
import math
import re

import yaml
from safetensors import safe_open

from .inputs import weight_files
from .programs import Failure, dotresize
from .sweeps import job_of

RUNTIME_BYTES = 1 << 30  # CUDA, cuBLAS and the activations of 128 tokens
BYTES_IN_16_BITS = 2
MAX_RANKS = 8  # the paper's largest machine
_LAYER = re.compile(r"\blayers\.(\d+)\.")


def block_bytes(model):
    """Bytes of the embedding, of each layer and of the head in 16 bits: parts that no GPU shares with another."""
    sizes = {}
    for file in weight_files(model):
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():
                layer = _LAYER.search(name)
                block = int(layer[1]) if layer else "embedding" if "embed" in name else "head"
                numbers = math.prod(tensors.get_slice(name).get_shape())
                sizes[block] = sizes.get(block, 0) + BYTES_IN_16_BITS * numbers
    layers = sorted(block for block in sizes if isinstance(block, int))
    return [sizes[block] for block in ("embedding", *layers, "head") if block in sizes]


def gpus_to_run(blocks, memory):
    """The least number of GPUs that hold the blocks in their order; None if one block alone is too large."""
    gpus, free = 0, 0
    for block in blocks:
        if block > memory - RUNTIME_BYTES:
            return None
        if block > free:
            gpus, free = gpus + 1, memory - RUNTIME_BYTES
        free -= block
    return gpus


def gpu_memory(hardware):
    """Bytes of a GPU that a process can have."""
    try:
        return float(yaml.safe_load(hardware.read_text(encoding="utf-8"))["capacity"]["device"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise Failure(f"{hardware}: no hardware file with capacity.device: {error}") from error


def compression(inputs, plan, sparsity):
    """The least ranks, a GPU each, with which `dotresize plan` has a plan, and its seconds; Nones beyond eight."""
    job = job_of(inputs, plan)
    job["method"] |= {"name": "pca_dotresize", "sparsity": sparsity}
    job["output"]["path"] = str(plan.output / "planned")
    file = plan.output / "planned.json"
    file.write_text(json.dumps(job), encoding="utf-8")
    layers = inputs.config.get("num_hidden_layers", MAX_RANKS)
    for ranks in range(1, min(MAX_RANKS, 2 * layers) + 1):
        changes = ["--set", "resources.device=cuda", "--set", f"resources.ranks={ranks}"]
        if document := dotresize("plan", file, "--hardware", plan.hardware, *changes, quiet=True):
            return ranks, document["seconds"]["total"]
    return None, None


def measured_latency(models, folder):
    """The latencies of models by path: of "prompt" and "decode" {"median", "p10", "p90"}, ms a token. Kept in a file: models
    that were measured together are measured once."""
    file = folder / "latency.json"
    paths = [str(model) for model in models]
    if file.is_file() and (kept := json.loads(file.read_text()))["models"] == paths:
        return kept["ms_per_token"]
    document = dotresize("eval", *paths, "--latency")
    found = {
        path: {part: of[f"{part}_ms_per_token"] for part in ("prompt", "decode")}
        for path, of in zip(paths, document["models"], strict=True)
    }
    kept = {"models": paths, "threads": document["threads"], "ms_per_token": found}
    file.write_text(json.dumps(kept, indent=1) + "\n")
    return found
