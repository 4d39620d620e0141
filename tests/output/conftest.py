import os
import tempfile

import torch

torch.set_num_threads(1)  # tiny models: more threads would only wait for each other

# Custom code is copied to a cache that is shared by all users of transformers: keep out of it.
_modules = tempfile.TemporaryDirectory(prefix="dotresize-hf-modules-")
os.environ["HF_MODULES_CACHE"] = _modules.name
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_sessionstart(session):
    """CTest runs the same tests with both major versions: be sure to have the one meant."""
    import transformers

    expected = os.environ.get("DOTRESIZE_EXPECT_TRANSFORMERS")
    major = transformers.__version__.split(".")[0]
    if expected and major != expected:
        raise SystemExit(
            f"these tests are meant for transformers {expected}, found {transformers.__version__} "
            f"in {transformers.__path__[0]}: run scripts/setup.sh"
        )
