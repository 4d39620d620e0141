"""The model and the texts of a reproduction, and how many samples the texts have."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from .programs import ROOT, Failure

sys.path.insert(0, str(ROOT / "worker" / "python"))
from tokenize_text import InputError, tokenize_files  # noqa: E402

PAPER_SAMPLES = 128
PAPER_SEQLEN = 2048
CALIBRATION = "calibration.txt"
EVALUATION = "evaluation.txt"
TASKS_CALIBRATION = "tasks.txt"


def weight_files(model):
    """The files that job/checkpoint reads: others beside them are not part of the model."""
    if (single := model / "model.safetensors").exists():
        return [single]
    index = json.loads((model / "model.safetensors.index.json").read_text(encoding="utf-8"))
    return [model / name for name in sorted(set(index["weight_map"].values()))]


def shapes_of(model):
    """The shape of each stored tensor, by name. A tied table is stored once."""
    shapes = {}
    for file in weight_files(model):
        with safe_open(file, framework="numpy") as tensors:
            shapes |= {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}
    return shapes


@dataclass(frozen=True)
class Inputs:
    model: Path
    config: dict  # config.json
    calibration: Path
    evaluation: Path
    tasks_calibration: Path  # for the zero-shot tasks; `calibration` if they have none of their own
    seqlen: int
    calibration_tokens: int

    @property
    def windows(self):
        """Windows of the calibration text."""
        return self.calibration_tokens // self.seqlen

    @property
    def samples(self):
        """The paper's number of samples, or as many as the text has."""
        return min(PAPER_SAMPLES, self.windows)


def read_config(model):
    file = model / "config.json"
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"{file}: {getattr(error, 'strerror', None) or f'not JSON: {error}'}") from error


def text_in(folder, name, what):
    if not (folder / name).is_file():
        raise Failure(f"{folder / name}: not there; --text is a folder with {what} ({name})")
    return (folder / name).resolve()


def token_count(model, text):
    try:
        return len(tokenize_files(model, [text]))
    except InputError as error:
        raise Failure(str(error)) from error


def require_samples(model, text, samples, seqlen):
    """Counts the tokens of the text; throws Failure if they are fewer than so many samples."""
    if (tokens := token_count(model, text)) < samples * seqlen:
        needed = "one sample" if samples == 1 else f"{samples} samples"
        raise Failure(f"{text}: {tokens} tokens, fewer than {needed} of {seqlen} (--seqlen)")
    return tokens


def read_inputs(model, folder, seqlen=None, tasks=False):
    """Throws Failure if the model has no config or tokenizer, or the folder lacks a text or enough of it; of the zero-shot
    tasks' text, if it has one, only with `tasks`."""
    config = read_config(model)
    calibration = text_in(folder, CALIBRATION, "the text that the maps are made from")
    evaluation = text_in(folder, EVALUATION, "the text of the perplexity")
    own = (folder / TASKS_CALIBRATION).resolve()
    seqlen = seqlen or min(PAPER_SEQLEN, config.get("max_position_embeddings", PAPER_SEQLEN))
    calibration_tokens = require_samples(model, calibration, 1, seqlen)
    require_samples(model, evaluation, 1, seqlen)
    inputs = Inputs(
        model=model.resolve(),
        config=config,
        calibration=calibration,
        evaluation=evaluation,
        tasks_calibration=own if own.is_file() else calibration,
        seqlen=seqlen,
        calibration_tokens=calibration_tokens,
    )
    if tasks:
        require_samples(model, inputs.tasks_calibration, inputs.samples, seqlen)
    return inputs


def split_samples(wanted, windows):
    """The sample counts that a text of so many windows has, and those that it has not."""
    return [n for n in wanted if n <= windows], [n for n in wanted if n > windows]
