"""Checks machine code without a GPU: instructions of our kernels, architectures of the libraries."""

import collections
import os
import pathlib
import re
import subprocess
import sysconfig

import pytest

BUILD = pathlib.Path(os.environ["DOTRESIZE_BUILD"])
PACKAGES = pathlib.Path(sysconfig.get_paths()["purelib"])
TOOLS = PACKAGES / "triton" / "backends" / "nvidia" / "bin"
STAGE = 8  # tokens between two barriers (l1_cost.cu)
PAIRS = 8 * 8 * STAGE  # pairs per thread and stage
OF_THE_TILE = 4  # most additions that find the tile's indices
FLUSHED_AT_ONCE = 8  # sums loaded before the first of them is stored
OF_A_STAGE = 64  # sums converted per stage

needs_tools = pytest.mark.skipif(not (TOOLS / "nvdisasm").exists(), reason="no nvdisasm: it comes with triton")


def printed(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=100).stdout


def instructions(cubin):
    """Returns {kernel: {instruction: count}}, with instruction names cut at the dot."""
    kernels, counts = {}, collections.Counter()
    for line in printed(TOOLS / "nvdisasm", "--print-code", cubin).splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            counts = kernels.setdefault(section.group(1), collections.Counter())
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?(\w+)", line):
            counts[found.group(1)] += 1
    return kernels


def flush_accesses(cubin, kernel):
    """Returns the loads (L) and stores (S) of float64 numbers in code order, as "LLSS"."""
    code = printed(TOOLS / "nvdisasm", "--print-code", cubin).split(f".section\t.text.{kernel},")[1].split(".section\t")[0]
    return "".join("L" if load else "S" for load in re.findall(r"\b(?:(LDG?)|STG?)(?:\.\w+)*\.64\b", code))


@needs_tools
@pytest.mark.parametrize("capability", [70, 80, 90])
def test_kernels_add_as_often_as_they_must_and_keep_all_in_registers(capability, tmp_path):
    subprocess.run([BUILD / "bin" / "write_cubins", tmp_path, str(capability)], check=True)
    kernels = {}
    for program in ("l1_cost", "removal", "sinkhorn"):
        kernels |= instructions(tmp_path / f"{program}.cubin")
    assert set(kernels) == {"l1_cost_float", "l1_cost_half", "mirror_upper_triangle", "removal_candidates", "removal_step",
                            "sinkhorn_rows", "sinkhorn_columns"}  # fmt: skip
    for name, counts in kernels.items():
        assert counts["LDL"] == counts["STL"] == 0, f"{name} has local memory"
        assert counts["BAR"] > 0 or name == "sinkhorn_columns"
    # Each pair takes a subtraction and an addition, and half precision does two pairs at once. The absolute value is free.
    assert kernels["l1_cost_float"]["FADD"] - 2 * PAIRS in range(OF_THE_TILE + 1)
    assert flush_accesses(tmp_path / "l1_cost.cubin", "l1_cost_half") == 8 * ("L" * FLUSHED_AT_ONCE + "S" * FLUSHED_AT_ONCE)
    if capability == 70:  # from sm_80 on the compiler alternates HADD2 and HFMA2
        assert kernels["l1_cost_half"]["HADD2"] - PAIRS in range(2 * OF_A_STAGE + 1)


@needs_tools
@pytest.mark.parametrize("library", ["nccl/lib/libnccl.so.2", "cusolver/lib/libcusolver.so.*", "cublas/lib/libcublas.so.*"])
def test_libraries_have_code_for_the_v100(library):
    (file,) = (PACKAGES / "nvidia").glob(library)
    listed = printed(TOOLS / "cuobjdump", "--list-elf", file)
    architectures = set(re.findall(r"\.(sm_\d+)\.cubin", listed))
    assert {"sm_70", "sm_80", "sm_90"} <= architectures
