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
UNROLLED = 4  # tokens of a stage (l1_cost.cu) that the code repeats
PAIRS = 8 * 8  # of a thread and token

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


@needs_tools
@pytest.mark.parametrize("capability", [70, 80, 90])
def test_a_pair_of_the_l1_cost_is_one_instruction_and_kernels_keep_all_in_registers(capability, tmp_path):
    subprocess.run([BUILD / "bin" / "write_cubins", tmp_path, str(capability)], check=True)
    kernels = {}
    for program in ("l1_cost", "removal", "sinkhorn"):
        kernels |= instructions(tmp_path / f"{program}.cubin")
    assert set(kernels) == {"l1_cost", "mirror_upper_triangle", "removal_candidates", "removal_step", "sinkhorn_rows", "sinkhorn_columns"}
    for name, counts in kernels.items():
        assert counts["LDL"] == counts["STL"] == 0, f"{name} has local memory"
        assert counts["BAR"] > 0 or name == "sinkhorn_columns"
    l1_cost = kernels["l1_cost"]
    assert l1_cost["VABSDIFF"] == PAIRS * UNROLLED
    assert l1_cost["RED"] + l1_cost["REDG"] == PAIRS, "a flush waits for what it adds to"


@needs_tools
@pytest.mark.parametrize("library", ["nccl/lib/libnccl.so.2", "cusolver/lib/libcusolver.so.*", "cublas/lib/libcublas.so.*"])
def test_libraries_have_code_for_the_v100(library):
    (file,) = (PACKAGES / "nvidia").glob(library)
    listed = printed(TOOLS / "cuobjdump", "--list-elf", file)
    architectures = set(re.findall(r"\.(sm_\d+)\.cubin", listed))
    assert {"sm_70", "sm_80", "sm_90"} <= architectures
