import gc
import os
import tempfile

import pytest

# The collector of cycles takes a fifth of the time in which torch and transformers are imported, and would then go through what
# they have made again and again.
gc.disable()

import torch  # noqa: E402
from running import DATA  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

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


def pytest_collection_finish(session):
    """Leaves what the imports have made to the end of the process."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory):
    """Returns a sixteenth of the evaluation tokens."""
    path = tmp_path_factory.mktemp("tokens") / "evaluation.safetensors"
    save_file({"tokens": load_file(DATA / "evaluation.safetensors")["tokens"][:4].clone()}, path)
    return path
