"""A model's directory as exporters write it: weights in files of a few gigabytes with their index, JSON files, all or nothing."""

import contextlib
import json
import os
import shutil
import sys

from exporting import partial_of

SHARD_BYTES = 5 << 30


class Shards:
    """Writes tensors to files of at most SHARD_BYTES, and the index. Progress is one line on stderr for each file."""

    def __init__(self, directory, program):
        self.directory, self.program = directory, program
        self.waiting, self.waiting_bytes, self.bytes = {}, 0, 0
        self.files = []  # names of the tensors of each

    def add(self, name, tensor):
        size = tensor.numel() * tensor.element_size()
        if self.waiting and self.waiting_bytes + size > SHARD_BYTES:
            self.write()
        self.waiting[name] = tensor
        self.waiting_bytes += size
        self.bytes += size

    def write(self):
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        try:
            save_file(self.waiting, self.directory / f"part-{len(self.files)}", metadata={"format": "pt"})
        except SafetensorError as error:  # a full disk, for example
            raise OSError(str(error)) from error
        self.files.append(list(self.waiting))
        self.waiting, self.waiting_bytes = {}, 0
        print(f"{self.program}: {self.bytes:,} bytes", file=sys.stderr)

    def finish(self):
        """Returns the number of tensors."""
        self.write()
        places = {}
        for number, names in enumerate(self.files):
            file = f"model-{number + 1:05}-of-{len(self.files):05}.safetensors"
            os.replace(self.directory / f"part-{number}", self.directory / file)
            places |= dict.fromkeys(names, file)
        write_json(self.directory / "model.safetensors.index.json", {"metadata": {"total_size": self.bytes}, "weight_map": places})
        return len(places)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def sync(directory):
    for path in [*directory.iterdir(), directory, directory.parent]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


@contextlib.contextmanager
def whole_or_nothing(out, model):
    """Gives a directory to write to, which becomes `out` if the files that the model was read from are still the same."""
    partial = partial_of(out)
    partial.mkdir()
    try:
        yield partial
        for file in partial.glob("*.safetensors"):
            shutil.copymode(partial / "config.json", file)  # safetensors lets the owner alone read
        sync(partial)
        model.require_unchanged()
        os.rename(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
