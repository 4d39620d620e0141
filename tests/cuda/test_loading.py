"""Tests that the programs load the libraries of torch's wheels, whatever LD_LIBRARY_PATH of a cluster's modules says."""

import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["DOTRESIZE_BUILD"])
MODULE = BUILD / "lib" / "libdotresize_cuda.so"


@pytest.fixture
def foreign_libraries(tmp_path):
    """Returns a folder with an NCCL that has no symbols."""
    (tmp_path / "empty.c").write_text("int foreign_nccl;\n")
    subprocess.run(["cc", "-shared", "-Wl,-soname,libnccl.so.2", "-o", tmp_path / "libnccl.so.2", tmp_path / "empty.c"],
                   check=True)  # fmt: skip
    return tmp_path


def loaded(library, folder):
    """Returns the files loaded with the library while LD_LIBRARY_PATH is the folder."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(["ldd", library], capture_output=True, text=True, check=True, env=environment)
    return {line.split()[0]: line.split()[2] for line in done.stdout.splitlines() if "=>" in line}


@pytest.mark.skipif(not MODULE.exists(), reason="built without CUDA")
def test_the_cuda_module_has_its_own_nccl(foreign_libraries):
    found = loaded(MODULE, foreign_libraries)["libnccl.so.2"]
    assert not found.startswith(str(foreign_libraries)) and "site-packages" in found


@pytest.mark.skipif(not MODULE.exists(), reason="built without CUDA")
def test_the_cuda_module_is_loaded_beside_a_foreign_nccl(foreign_libraries):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(foreign_libraries), "LD_PRELOAD": str(MODULE), "LD_BIND_NOW": "1"}
    done = subprocess.run([BUILD / "bin" / "dotresize-worker", "--version"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "undefined symbol" not in done.stderr
