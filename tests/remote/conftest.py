"""Fixtures for models, texts and outputs in S3 and on a Hub. Nothing leaves the loopback device."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from services import hub, s3  # noqa: F401

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DOTRESIZE_BIN", SOURCE / "build" / "bin"))
MODEL = SOURCE / "examples" / "docs-llama"
MODEL_FILES = {file.name: file.read_bytes() for file in MODEL.iterdir() if file.is_file()}


@pytest.fixture
def environment(tmp_path):
    """Returns the environment of a user without any credentials."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HF_", "HUGGING_FACE_"))}
    return kept | {"HOME": str(tmp_path / "home"), "AWS_EC2_METADATA_DISABLED": "true", "DOTRESIZE_REMOTE_PATIENCE": "3",
                   "DOTRESIZE_REMOTE_CACHE": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": "", "TERM": "dumb"}


@pytest.fixture
def dotresize(environment):
    """Returns dotresize(*arguments, exit_code, **more environment), which runs the command line."""
    def call(*arguments, exit_code=0, **more):
        done = subprocess.run([BIN / "dotresize", *map(str, arguments)], env=environment | more, capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == exit_code, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done
    return call


@pytest.fixture
def fetch(environment, tmp_path):
    """Returns fetch(url, kind, cache_size, **more environment), which gives the helper's last record."""
    def call(url, kind="model", cache_size=1 << 30, **more):
        done = subprocess.run([sys.executable, SOURCE / "worker/python/remote_files.py", "fetch", url, "--kind", kind, "--cache",
                               tmp_path / "cache", "--cache-size", str(cache_size)],
                              env=environment | {"PYTHONDONTWRITEBYTECODE": "1"} | more, capture_output=True, text=True, timeout=120)
        assert not done.stderr, done.stderr
        return json.loads(done.stdout.splitlines()[-1])
    return call


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.safetensors"
    all_tokens = load_file(SOURCE / "tests" / "data" / "evaluation.safetensors")["tokens"]
    save_file({"tokens": np.ascontiguousarray(all_tokens[:2, :64])}, path)
    return path


@pytest.fixture
def job(tmp_path, tokens):
    """Returns job(model, output, **sections), which writes the file of a job that takes a second."""
    def write(model, output, **sections):
        spec = {"name": "remote", "model": {"path": str(model)}, "output": {"path": str(output)},
                "method": {"name": "slicegpt", "width": 128}, "calibration": {"tokens": str(tokens)},
                "resources": {"ranks": 1}} | sections
        path = tmp_path / "job.json"
        path.write_text(json.dumps(spec))
        return path
    return write
