"""A situation of the table, the folder in which it is rebuilt, and the dense models that it starts from."""

import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 300
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None,
         "tie_word_embeddings": False}  # fmt: skip
FAMILIES = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "phi3": {"sliding_window": None},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "qwen3 of wide heads": {"head_dim": 128},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "head_dim": 8},
}
JOB = {
    "name": "field",
    "model": {"path": "model"},
    "output": {"path": "out"},
    "method": {"name": "slicegpt", "width": 24, "allow_larger": True},
    "calibration": {"tokens": "tokens.safetensors"},
}
WORDS = "the quick brown fox jumps over the lazy dog while it rains and the river rises above its banks in the night".split()
CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"


@dataclass
class Place:
    """The folder of a situation: `model/`, `tokens.safetensors`, `job.json`, and what its maker adds."""

    folder: Path

    def __truediv__(self, name):
        return self.folder / name

    @property
    def config(self):
        return json.loads((self / "model/config.json").read_text())

    @config.setter
    def config(self, keys):
        (self / "model/config.json").write_text(json.dumps(keys, indent=2))

    @property
    def tensors(self):
        """Tensors of all files that `model/` has."""
        return {name: tensor for file in sorted((self / "model").glob("*.safetensors")) for name, tensor in load_file(file).items()}

    @tensors.setter
    def tensors(self, tensors):
        store(self / "model/model.safetensors", tensors)

    def write(self, name, content):
        """Writes a text, bytes, or a JSON document."""
        path = self / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


@dataclass(frozen=True, eq=False)  # its identity is its hash
class Situation:
    """One line of the table. `command` is typed into a shell in the place; `as_root`: it needs the rights of root."""

    name: str
    make: Callable[[Place], None]
    command: str
    expectation: object
    as_root: bool = False

    @property
    def versions(self):
        """Versions of transformers whose values the expectation compares."""
        return getattr(self.expectation, "versions", ())


def store(path, tensors, metadata=("format", "pt")):
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=dict([metadata]))


@functools.cache
def session_folder():
    """Returns a folder that other users can enter, unlike pytest's own."""
    folder = tempfile.TemporaryDirectory(prefix="dotresize-field-")
    os.chmod(folder.name, 0o755)
    return folder


def text_of(words, seed=0):
    picks = torch.randint(0, len(WORDS), (words,), generator=torch.Generator().manual_seed(seed))
    return " ".join(WORDS[pick] for pick in picks)


def rendered(conversations):
    """Returns the conversations as CHAT writes them."""
    return "".join(f"<|{message['role']}|>{message['content']}\n" for messages in conversations for message in messages)


@functools.cache
def tokenizer():
    """Returns a byte-level BPE tokenizer that uses most of the vocabulary."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 8, special_tokens=["<s>", "</s>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    made.train_from_iterator([text_of(400)], trainer)
    return made


@functools.cache
def base(family):
    """Returns the directory of a random model of this family as transformers 5 saves it, with a tokenizer."""
    directory = Path(session_folder().name) / "bases" / family
    config = AutoConfig.for_model(family.split()[0], **SIZES | FAMILIES[family])
    model = AutoModelForCausalLM.from_config(config).float()
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        normal = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            parameter.data = 1.0 + 0.2 * normal
        else:  # large enough that every setting changes the perplexity
            parameter.data = normal * (0.3 if name.endswith("bias") else 1.5 * parameter.shape[-1] ** -0.5)
    model.save_pretrained(directory)
    tokenizer().save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}))
    (directory / "chat_template.jinja").write_text(CHAT)
    return directory


@functools.cache
def tokens_file():
    path = Path(session_folder().name) / "tokens.safetensors"
    ids = torch.randint(0, VOCABULARY - 10, (4, 64), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    store(path, {"tokens": ids})
    return path


def new_place(family="llama"):
    place = Place(Path(tempfile.mkdtemp(dir=session_folder().name)))
    place.folder.chmod(0o777)
    shutil.copytree(base(family), place / "model")
    shutil.copy(tokens_file(), place / "tokens.safetensors")
    for file in [*(place / "model").iterdir(), place / "tokens.safetensors"]:
        file.chmod(0o644)  # other users may read them
    place.write("job.json", JOB)
    return place


def made(family, *bends):
    """Returns a maker: a model of the family that each of the bends changes in turn. A bend takes a Place."""

    def make():
        place = new_place(family)
        for bend in bends:
            bend(place)
        return place

    return make

