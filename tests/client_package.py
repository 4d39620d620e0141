"""Builds the Python client's package as in its wheel, but faster than a wheel (tests/server/test_remote.py builds one)."""

import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PROTOS = ("dotresize/v1/job", "dotresize/v1/jobs", "dotresize/v1/sweep")


def make_client_package(directory, *more_protos):
    """Puts the package `dotresize` with its stubs into `directory`, and the stubs of further files of proto/ beside it."""
    shutil.copytree(SOURCE / "client/python/dotresize", pathlib.Path(directory) / "dotresize", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCE}/proto", f"--python_out={directory}", f"--grpc_python_out={directory}"]
    subprocess.run(command + [f"{name}.proto" for name in PROTOS + more_protos], check=True)
