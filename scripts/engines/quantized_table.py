"""Run by scripts/engines.sh --quantize: a table of models in the types of llama.cpp's quantizer, from the largest file to
the smallest, with the perplexity of each in llama.cpp.

The first model in the first type is what all others are compared with, token by token.
"""

import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import llama_cpp
import numpy as np
from comparison import Refused, export, parser, read_windows
from gguf import GGUFReader
from llama_cpp_perplexity import errors, keep_errors, token_losses
from tabulate import tabulate

FTYPE = "LLAMA_FTYPE_MOSTLY_"
HEADER = ("model", "type", "stored as", "bytes", "of the first", "perplexity", "over the first", "none smaller is better")


@dataclass
class Row:
    model: str
    type_name: str
    stored_as: str  # types of the file's matrices, by their bytes
    bytes: int
    losses: np.ndarray  # one for each predicted token, nats

    @property
    def perplexity(self):
        return math.exp(self.losses.mean())


def quantize(file, type_name, quantized):
    """Quantizes as llama-quantize does without an importance matrix."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, FTYPE + type_name)
    errors.clear()
    if llama_cpp.llama_model_quantize(str(file).encode(), str(quantized).encode(), options) != 0:
        raise Refused(errors[0] if errors else f"llama.cpp makes no {type_name} of it")


def stored_types(file):
    """The types that hold at least a hundredth of the file's tensors, the largest part first."""
    sizes = {}
    for tensor in GGUFReader(file).tensors:
        sizes[tensor.tensor_type.name] = sizes.get(tensor.tensor_type.name, 0) + int(tensor.n_bytes)
    parts = {name: size / sum(sizes.values()) for name, size in sizes.items()}
    return ", ".join(f"{name} {parts[name]:.0%}" for name in sorted(parts, key=parts.get, reverse=True) if parts[name] >= 0.01)


def rows_of(model_dir, types, windows):
    """A row for each type that llama.cpp takes, and why it refuses the others, or there is no GGUF."""
    rows, refused = [], []
    with tempfile.TemporaryDirectory() as folder:
        file, quantized = Path(folder) / "model.gguf", Path(folder) / "quantized.gguf"
        try:
            export(model_dir, file, "f32")
        except Refused as reason:
            return rows, [f"{model_dir}: {' '.join(str(reason).split())}"]
        for type_name in types:
            try:
                quantize(file, type_name, quantized)
                losses = token_losses(quantized, windows)
            except Refused as reason:
                refused.append(f"{model_dir}: {type_name} refused: {' '.join(str(reason).split())}")
                continue
            row = Row(Path(model_dir).name, type_name, stored_types(quantized), quantized.stat().st_size, losses)
            print(f"{row.model}: {type_name}, {row.bytes:,} bytes, perplexity {row.perplexity:.4f}", file=sys.stderr, flush=True)
            rows.append(row)
    return rows, refused


def ratio(row, first):
    """The ratio of the perplexities with its standard error: that of the mean difference of the tokens' losses."""
    differences = (row.losses - first.losses).ravel()
    found = math.exp(differences.mean())
    error = differences.std(ddof=1) / math.sqrt(differences.size)
    return f"{found:.4f} ± {found * error:.4f}"


def table(rows):
    first, cells, best = rows[0], [], math.inf
    for row in sorted(rows, key=lambda row: (row.bytes, row.perplexity)):
        is_best = row.perplexity < best
        best = min(best, row.perplexity)
        numbers = f"{row.bytes:,}", f"{row.bytes / first.bytes:.1%}", f"{row.perplexity:.2f}", ratio(row, first)
        cells.append((row.model, row.type_name, row.stored_as, *numbers, "yes" if is_best else ""))
    alignment = ("left",) * 3 + ("right",) * 4 + ("left",)
    return tabulate(cells[::-1], HEADER, tablefmt="pipe", colalign=alignment, disable_numparse=True)


def main():
    arguments = parser(__doc__)
    known = [name.removeprefix(FTYPE) for name in vars(llama_cpp) if name.startswith(FTYPE)]
    arguments.add_argument("--quantize", nargs="+", required=True, choices=known, metavar="TYPE", help=f"some of {', '.join(known)}")
    arguments.add_argument("--windows", type=int, help="so many, spread evenly over the file; default: all")
    arguments = arguments.parse_args()
    llama_cpp.llama_log_set(keep_errors, None)
    windows = read_windows(arguments.tokens)
    count = min(arguments.windows or len(windows), len(windows))
    windows = windows[np.arange(count) * len(windows) // count]
    rows, refused = [], []
    for model_dir in arguments.model_dir:
        of_model = rows_of(model_dir, arguments.quantize, windows)
        rows += of_model[0]
        refused += of_model[1]
    if rows:
        print(table(rows))
    for line in refused:
        print(line, file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
