"""Tests of `dotresize doctor`: on this machine, and with something broken, in reality or in the worker's words."""

import json
import os
import subprocess

import pytest
from conftest import BIN

NO_PROGRAMS = {"PATH": "/no/such/folder"}  # also skips the slow start of mpirun


def doctor(exit_code, *, command=(), **environment):
    """Runs the doctor and returns the checks by part, in order."""
    done = subprocess.run([*command, BIN / "dotresize", "doctor", "-o", "json"], env=os.environ | environment,
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == exit_code, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] == (exit_code == 0)
    checks = {check["part"]: check for check in document["checks"]}
    on_gpus = checks.get("GPUs", {}).get("state") == "ok"
    assert ("can run on the GPUs and on the CPU" in document["verdict"]) == (on_gpus and exit_code == 0)
    return checks


def library(path, name, source):
    (path / "source.c").write_text(source)
    file = path / name
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", file, path / "source.c"], check=True)
    return file


def test_a_machine_that_can_run_jobs():
    checks = doctor(0)
    assert list(checks)[:8] == ["cores", "memory", "shared memory", "temporary", "directory", "worker", "mpirun", "Python"]
    assert all(checks[part]["state"] == "ok" for part in ["worker", "mpirun", "Python"])
    assert checks["worker"]["text"] == str(BIN / "dotresize-worker")
    assert checks["mpirun"]["text"].startswith("two ranks have passed the self-test on the CPU; links: ")


def test_without_mpirun_and_python_and_beside_a_foreign_nccl(tmp_path):
    library(tmp_path, "libnccl.so.2", "int foreign_nccl;\n")
    checks = doctor(69, DOTRESIZE_PYTHON="/no/such/python", LD_LIBRARY_PATH=str(tmp_path), **NO_PROGRAMS)
    assert checks["mpirun"]["state"] == "fault" and checks["mpirun"]["text"] == "there is no mpirun in PATH"
    assert "install OpenMPI" in checks["mpirun"]["advice"]
    assert checks["Python"]["state"] == "fault" and "/no/such/python" in checks["Python"]["text"]
    assert "requirements.txt" in checks["Python"]["advice"]
    if "NCCL" in checks:  # builds for the CPU alone have no NCCL
        assert checks["NCCL"]["state"] == "ok" and "site-packages" in checks["NCCL"]["text"].split(";")[0]
        assert checks["NCCL"]["text"].endswith(f"; not the one in LD_LIBRARY_PATH, {tmp_path}")


DRIVER = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int* version) { *version = 12080; return 0; }
int cuDeviceGetCount(int* count) { *count = 2; return 0; }
int cuDeviceGetName(char* name, int size, int device) { strncpy(name, device ? "Tesla P100" : "Tesla V100", size); return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? (device ? 6 : 7) : attribute == 76 ? 0 : -1;
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = (size_t)32 << 30; return 0; }
"""


def test_a_gpu_without_kernels_and_a_python_without_packages(tmp_path):
    library(tmp_path, "libcuda.so.1", DRIVER)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
    python.chmod(0o755)
    checks = doctor(69, DOTRESIZE_PYTHON=str(python), LD_LIBRARY_PATH=str(tmp_path), **NO_PROGRAMS)
    assert "No module named" in checks["Python"]["text"]
    assert checks["driver"]["text"] == "NVIDIA driver for CUDA up to 12.8"
    assert checks["GPU 0"]["text"].startswith("Tesla V100 (sm_70), 32.0 GiB")
    if checks["CUDA module"]["state"] == "ok":
        assert checks["GPU 0"]["state"] == "ok" and checks["GPU 1"]["state"] == "fault"
        assert "Tesla P100 (sm_60), 32.0 GiB: libtorch has no kernels for sm_60" in checks["GPU 1"]["text"]
        assert "operations.md" in checks["GPU 1"]["advice"]
    assert "GPUs" not in checks  # no GPU is tested


def test_a_module_that_finds_a_wrong_nccl_does_not_keep_jobs_from_the_cpu(tmp_path):
    if not (BIN.parent / "lib" / "libdotresize_cuda.so").exists():
        pytest.skip("built without CUDA")
    nccl = library(tmp_path, "libnccl.so.2", "int foreign_nccl;\n")
    checks = doctor(0, LD_PRELOAD=str(nccl))
    assert checks["CUDA module"]["state"] == "fault" and not checks["CUDA module"]["needed"]
    assert "undefined symbol" in checks["CUDA module"]["text"] and "LD_PRELOAD" in checks["CUDA module"]["advice"]


def test_shared_memory_that_is_full():
    full = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*full, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount in a namespace of its own")
    checks = doctor(69, command=full, DOTRESIZE_WORKER="/no/such/worker")
    assert checks["shared memory"]["state"] == "fault"
    assert checks["shared memory"]["text"] == "/dev/shm: less than 16.0 MiB are free"
    assert "--shm-size" in checks["shared memory"]["advice"]
    assert checks["worker"]["state"] == "fault" and "/no/such/worker" in checks["worker"]["text"]
    assert "mpirun" not in checks  # there is nothing to start


PROBE = {
    "version": subprocess.run([BIN / "dotresize", "--version"], capture_output=True, text=True).stdout.split()[-1],
    "python": {"program": "python3", "fault": ""},
    "driver": {"found": True, "fault": "", "cuda_version": 12080},
    "gpus": [{"name": "Tesla V100", "capability": 70, "memory_bytes": 32 << 30, "fault": ""}] * 2,
    "cuda_module": {"path": "/lib/libdotresize_cuda.so", "built": True, "fault": ""},
    "nccl": "",
}


@pytest.fixture
def told(tmp_path):
    """Returns the checks for a worker that describes the machine like this; `cuda` is its self-test on GPUs."""

    def run(exit_code, probe, cuda=":", **environment):
        result = {"devices": [], "compute_dtype": "float16", "seconds": 1.5, "link_bytes_per_s": [2_000_000_000]}
        (tmp_path / "probe.json").write_text(json.dumps(PROBE | probe))
        (tmp_path / "result.json").write_text(json.dumps(result))
        worker = tmp_path / "worker"
        worker.write_text(f"""#!/bin/sh
cd {tmp_path}
[ "$1" = --version ] && exit 0
[ "$1" = probe ] && exec /bin/cat probe.json
if [ "$3" = cuda ]; then {cuda}; fi
[ "$OMPI_COMM_WORLD_RANK" = 0 ] && exec /bin/cat result.json
exit 0
""")
        worker.chmod(0o755)
        return doctor(exit_code, DOTRESIZE_WORKER=str(worker), **environment)

    return run


def test_gpus_that_pass_and_gpus_that_fail_the_self_test(told):
    checks = told(0, {})
    assert checks["GPUs"]["state"] == "ok"
    assert checks["GPUs"]["text"] == "all have passed the self-test in float16, in 1.5 s; links: 2.00GB/s at least"
    fault = "rank 1 on node7: resources.device: rank 1 on node7, Tesla V100 (sm_70), has failed the self-test: eigh"
    checks = told(0, {}, cuda=f'echo "dotresize-worker: error: {fault}" >&2; exit 65')
    assert checks["GPUs"]["state"] == "fault" and checks["GPUs"]["text"] == fault
    assert "CUDA_VISIBLE_DEVICES" in checks["GPUs"]["advice"]


@pytest.mark.parametrize("driver, state", [
    ({"found": False, "fault": "no NVIDIA driver (libcuda.so.1)", "cuda_version": 0}, "note"),
    ({"found": True, "fault": "no GPU", "cuda_version": 12080}, "note"),
    ({"found": True, "fault": "the NVIDIA driver does not start (cuInit: error 803)", "cuda_version": 0}, "fault"),
])
def test_no_gpu_is_told_and_no_error(told, driver, state):
    checks = told(69, {"driver": driver, "gpus": []}, **NO_PROGRAMS)  # the missing program is mpirun
    assert checks["driver"]["state"] == state and not checks["driver"]["needed"]
    assert checks["driver"]["text"] == driver["fault"] + ": jobs run on the CPU" and checks["driver"]["advice"]


def test_what_is_of_another_build_is_at_fault(told, tmp_path):
    checks = told(69, {"version": "0.0.9"}, **NO_PROGRAMS)
    assert checks["worker"]["state"] == "fault" and "its version is 0.0.9" in checks["worker"]["text"]
    library(tmp_path, "libnccl.so.2", "int foreign_nccl;\n")
    checks = told(69, {"nccl": str(tmp_path / "libnccl.so.2")}, LD_LIBRARY_PATH=str(tmp_path), **NO_PROGRAMS)
    assert checks["NCCL"]["state"] == "fault" and str(tmp_path) in checks["NCCL"]["advice"]


def test_an_mpirun_that_starts_no_ranks(told, tmp_path):
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\necho 'There are not enough slots' >&2\nexit 1\n")
    mpirun.chmod(0o755)
    checks = told(69, {"gpus": []}, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert checks["mpirun"]["text"] == "two ranks fail: There are not enough slots" and checks["mpirun"]["advice"]
