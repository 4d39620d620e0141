"""Results that the command of a situation is expected to give. check() raises AssertionError; str() is the table's text."""

import json
import math
import re
from dataclasses import dataclass, field

import pytest
import reference
import torch
from safetensors.torch import load_file, save_file

# Marks of a message that nobody wrote for a reader.
RAW = ["Traceback", "/proc/self/fd", "what():", "Exception", "std::", "filesystem error", "prterun"]
TOLERANCE = 1e-5


def output_of(done):
    return done.stdout + done.stderr


def assert_says(done, words):
    for word in words:
        assert re.search(word, output_of(done), re.IGNORECASE | re.DOTALL), f"nothing says /{word}/:\n{output_of(done)[-3000:]}"


def assert_ended(done, code):
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{output_of(done)[-3000:]}"


def document_of(done):
    return json.loads(done.stdout)


def found_in(done):
    """Returns in a few words what a command gave."""
    if done.returncode != 0:
        lines = [line for line in output_of(done).splitlines() if "error" in line.lower()] or output_of(done).splitlines()[-1:]
        return f"{done.returncode}: {' '.join(lines)[:200]}"
    try:
        document = document_of(done)
    except ValueError:
        return "0"
    return f"perplexity {document['models'][0]['perplexity']:.2f}" if "models" in document else f"{document['dense']}"


@dataclass
class Equal:
    """`eval -o json` gives the perplexity of these versions of transformers, with these words in warnings, or without any warning."""

    versions: tuple = (5,)
    words: tuple = ()
    text: str | None = None  # what the tokens are of, if not the tokens file

    def __str__(self):
        return f"as transformers {' and '.join(map(str, self.versions))}" + "".join(f", says /{word}/" for word in self.words)

    def check(self, done, place, references):
        assert_ended(done, 0)
        document = document_of(done)
        found = document["models"][0]["perplexity"]
        for version in self.versions:
            expected = references[version]
            assert isinstance(expected, float), f"transformers {version}: {expected}"
            assert found == pytest.approx(expected, rel=TOLERANCE), f"perplexity {found}, in transformers {version} {expected}"
        assert_says(done, self.words)
        assert self.words or not document["warnings"] and "warning" not in done.stderr, f"a warning about what is right:\n{output_of(done)[-3000:]}"


@dataclass
class Refused:
    """The command ends with this code and a sentence that has these words. `versions`: two that read other models in it."""

    words: tuple
    code: int = 65
    versions: tuple = ()

    def __str__(self):
        return f"refused ({self.code}): " + ", ".join(f"/{word}/" for word in self.words)

    def check(self, done, place, references):
        if self.versions:
            first, second = (references[version] for version in self.versions)
            assert first != pytest.approx(second, rel=TOLERANCE), f"there is no contradiction: {first} in both"
        assert_ended(done, self.code)
        assert_says(done, self.words)
        raw = [mark for mark in RAW if mark in output_of(done)]
        assert not raw, f"not a sentence for a reader, {raw}:\n{output_of(done)[-3000:]}"


@dataclass
class Runs:
    """The command ends with 0 and says these words."""

    words: tuple

    def __str__(self):
        return "runs" + "".join(f", says /{word}/" for word in self.words)

    def check(self, done, place, references):
        assert_ended(done, 0)
        assert_says(done, self.words)


@dataclass
class Either:
    """One of several is enough, where both are right."""

    choices: tuple

    @property
    def versions(self):
        return tuple({version for choice in self.choices for version in getattr(choice, "versions", ())})

    def __str__(self):
        return " or ".join(map(str, self.choices))

    def check(self, done, place, references):
        faults = []
        for choice in self.choices:
            try:
                return choice.check(done, place, references)
            except AssertionError as error:
                faults.append(str(error))
        raise AssertionError("\n".join(faults))


@dataclass
class Sized:
    """`plan -o json` counts the bytes that are on disk, in their dtype, and the output keeps it."""

    dtype: str | None
    words: tuple

    def __str__(self):
        return f"plan: bytes as stored, {self.dtype or 'mixed'}" + "".join(f", says /{word}/" for word in self.words)

    def check(self, done, place, references):
        assert_ended(done, 0)
        plan, stored = document_of(done), place.tensors
        expected = sum(tensor.nbytes for tensor in stored.values())
        assert plan["dense"]["bytes"] == expected, f"{plan['dense']} in place of {expected} bytes"
        if self.dtype:
            assert (plan["dense"]["dtype"], plan["compressed"]["dtype"]) == (self.dtype, self.dtype), plan
            size = torch.empty(0, dtype=getattr(torch, self.dtype)).element_size()
            assert plan["compressed"]["bytes"] == size * plan["compressed"]["parameters"]
        says = [*plan.get("warnings", []), done.stderr]
        for word in self.words:
            assert any(re.search(word, line) for line in says), f"no warning /{word}/: {says}"
        if not self.words:
            assert not [line for line in says if "float" in line], f"a warning of dtypes that agree: {says}"


@dataclass
class Written:
    """`run` writes an output whose tensors have the dtypes of the source's of the same role, and at most this share of its bytes."""

    dtypes: dict  # by a word of the name; "": all others
    share: float

    def __str__(self):
        return f"output in {self.dtypes}, at most {self.share:.0%} of the bytes on disk"

    def check(self, done, place, references):
        assert_ended(done, 0)
        written = {name: tensor for file in (place / "out").glob("*.safetensors") for name, tensor in load_file(file).items()}
        for name, tensor in written.items():
            dtype = next((dtype for word, dtype in self.dtypes.items() if word in name), None)
            assert str(tensor.dtype) == f"torch.{dtype}", f"{name} is {tensor.dtype}, not {dtype}"
        bytes_of = [sum(tensor.nbytes for tensor in tensors.values()) for tensors in (written, place.tensors)]
        assert bytes_of[0] <= self.share * bytes_of[1], f"{bytes_of[0]} bytes of {bytes_of[1]}"


@dataclass
class Exported:
    """`export` writes model.gguf, which transformers reads back as the model that it reads in the directory; with these settings."""

    settings: dict = field(default_factory=dict)
    read_back: bool = True
    versions: tuple = (5,)

    def __str__(self):
        return "GGUF " + ("as transformers 5" if self.read_back else "") + "".join(f", {key} {value}" for key, value in self.settings.items())

    def check(self, done, place, references):
        from gguf import GGUFReader

        assert_ended(done, 0)
        fields = GGUFReader(place / "model.gguf").fields
        architecture = fields["general.architecture"].contents()
        for key, value in self.settings.items():
            name = key if "." in key else f"{architecture}.{key.replace('__', '.')}"
            assert fields[name].contents() == value, f"{name} is {fields[name].contents()}, not {value}"
        if self.read_back:
            found, expected = reference.score(place.folder, place / "tokens.safetensors", gguf_file="model.gguf"), references[5]
            assert isinstance(found, float) and math.isfinite(found), f"the file gives {found}"
            assert found == pytest.approx(expected, rel=TOLERANCE), f"perplexity {found} of the file, {expected} of the model"


def equal(*versions, says=()):
    return Equal(versions or (5,), tuple([says] if isinstance(says, str) else says))


def of_text(text, says=()):
    """As transformers 5 over the tokens of this text, in windows of 32."""
    return Equal((5,), tuple([says] if isinstance(says, str) else says), text)


def refused(*words, code=65):
    return Refused(words, code)


def contradiction(*words):
    """Refused, because transformers 4 and 5 read other models in it."""
    return Refused(words, versions=(4, 5))


def runs(*words):
    return Runs(words)


def either(*choices):
    return Either(choices)


def sized(dtype=None, says=()):
    return Sized(dtype, tuple([says] if isinstance(says, str) else says))


def written(share, **dtypes):
    return Written(dtypes | {"": dtypes.pop("rest")}, share)


def exported(read_back=True, **settings):
    return Exported(settings, read_back)


def tokens_for(expectation, place):
    """Returns the tokens file over which transformers' perplexity is computed."""
    text = getattr(expectation, "text", None)
    if text is None:
        return place / "tokens.safetensors"
    from situations import tokenizer

    ids = tokenizer().encode(text, add_special_tokens=False).ids
    path = place / "text-tokens.safetensors"
    save_file({"tokens": torch.tensor(ids[: len(ids) // 32 * 32]).view(-1, 32)}, path)
    return path
