"""Pythons whose programs are forks of a process that has made its imports once."""

import atexit
import functools
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
# Packages of the programs in worker/python, but for transformers: they decide how it is imported.
HELPERS = "import gguf, jinja2.sandbox, safetensors.torch, tokenizers, torch"
FAMILIES = ("Llama", "Mistral", "Mixtral", "Phi3", "Qwen2", "Qwen3", "Qwen3Moe")
# transformers imports its modules only at the first use of their names. Version 5 compiles patterns for all of its families at
# the first load of a model.
MODELS = f"""
import contextlib
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers import {", ".join(f"{family}ForCausalLM" for family in FAMILIES)}

with contextlib.suppress(ImportError):
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    get_checkpoint_conversion_mapping("llama")
"""


@functools.cache
def forking_python(imports, python_path=""):
    """Returns a program that runs Python programs as the interpreter does, after these imports."""
    folder = tempfile.TemporaryDirectory(prefix="dotresize-forks-")
    atexit.register(folder.cleanup)
    path = f"{folder.name}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        number = listener.fileno()
        process = subprocess.Popen([sys.executable, FOLDER / "forks" / "fork_programs.py", str(number), imports], stdin=subprocess.PIPE,
                                   pass_fds=[number], env={**os.environ, "PYTHONPATH": python_path, "OMP_NUM_THREADS": "1"})  # fmt: skip
    atexit.register(process.communicate)  # ends its input, and so the process
    program = Path(folder.name) / "python"
    client = shlex.join([sys.executable, "-IS", str(FOLDER / "forks" / "run_in_fork.py"), path])
    program.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
    program.chmod(0o755)
    return str(program)
