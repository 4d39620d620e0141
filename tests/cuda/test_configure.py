"""Tests of CMake's checks of libtorch: a CUDA half that the GPUs cannot use is an error, never silently left out."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(configure LANGUAGES NONE)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
set(_libtorch_dir ${CMAKE_SOURCE_DIR}/torch)
add_library(libtorch INTERFACE IMPORTED)
include(%s)
message(STATUS "DOTRESIZE_CUDA=${DOTRESIZE_CUDA}")
"""


def torch(folder, cuda=12, architectures=(70, 80, 90)):
    """Makes a folder that looks like torch's wheel and the CUDA wheels beside it."""
    flags = ";".join(f"-gencode;arch=compute_{one},code=sm_{one}" for one in architectures)
    files = {
        "torch/lib/libtorch_cuda.so": flags,
        "torch/lib/libc10_cuda.so": f"\0libcudart.so.{cuda}\0",
        "nvidia/nccl/include/nccl.h": "",
        "nvidia/nccl/lib/libnccl.so.2": "",
    }
    for part, name, header in [("cuda_runtime", "cudart", "cuda_runtime_api.h"), ("cuda_nvrtc", "nvrtc", "nvrtc.h")]:
        place = f"nvidia/{part}" if cuda == 12 else f"nvidia/cu{cuda}"
        files[f"{place}/include/{header}"] = ""
        files[f"{place}/lib/lib{name}.so.{cuda}"] = ""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "CMakeLists.txt").write_text(PROJECT % (ROOT / "cmake" / "LibtorchCuda.cmake"))
    return folder


def configure(folder, *options):
    done = subprocess.run(["cmake", "-S", folder, "-B", folder / "build", *options], capture_output=True, text=True)
    return done.returncode == 0, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("cuda", [12, 13])
def test_the_wheels_of_either_cuda_are_found(cuda, tmp_path):
    accepted, said = configure(torch(tmp_path, cuda))
    assert accepted and f"CUDA {cuda} of libtorch, for sm_70 sm_80 sm_90" in said and "DOTRESIZE_CUDA=ON" in said, said


def test_a_torch_without_volta_is_refused(tmp_path):
    accepted, said = configure(torch(tmp_path, architectures=(75, 80)))
    assert not accepted and "has no kernels for sm_70, only for: sm_75 sm_80" in said, said
    assert configure(tmp_path, "-DDOTRESIZE_GPUS=75;80")[0]


def test_a_cuda_without_its_wheels_is_refused(tmp_path):
    shutil.rmtree(torch(tmp_path, 13) / "nvidia" / "cu13")
    accepted, said = configure(tmp_path)
    assert not accepted and "built for CUDA 13, and these are missing: libcudart.so.13 with cuda_runtime_api.h" in said, said
    accepted, said = configure(tmp_path, "-DDOTRESIZE_WITH_CUDA=OFF")
    assert accepted and "DOTRESIZE_CUDA=OFF" in said, said


def test_a_torch_for_the_cpu_is_one_for_the_cpu_unless_cuda_is_asked_for(tmp_path):
    (torch(tmp_path) / "torch/lib/libtorch_cuda.so").unlink()
    accepted, said = configure(tmp_path)
    assert accepted and "DOTRESIZE_CUDA=OFF" in said, said
    accepted, said = configure(tmp_path, "-DDOTRESIZE_WITH_CUDA=ON")
    assert not accepted and "has no CUDA: install a CUDA build of torch" in said, said
