import os
import tempfile

import pytest
import torch
from running import DATA
from safetensors.torch import load_file, save_file

# The models are tiny: more threads would only wait for each other, here and in the programs that the tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

# The default cache for custom code is shared by all users of transformers: use another one.
_modules = tempfile.TemporaryDirectory(prefix="dotresize-hf-modules-")
os.environ["HF_MODULES_CACHE"] = _modules.name
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_sessionstart(session):
    """Checks that the transformers version is the one meant: CTest runs the same tests with both major versions."""
    import transformers

    expected = os.environ.get("DOTRESIZE_EXPECT_TRANSFORMERS")
    major = transformers.__version__.split(".")[0]
    if expected and major != expected:
        raise SystemExit(
            f"these tests are meant for transformers {expected}, found {transformers.__version__} "
            f"in {transformers.__path__[0]}: run scripts/setup.sh"
        )


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory):
    """Returns a sixteenth of the evaluation tokens."""
    path = tmp_path_factory.mktemp("tokens") / "evaluation.safetensors"
    save_file({"tokens": load_file(DATA / "evaluation.safetensors")["tokens"][:4].clone()}, path)
    return path
