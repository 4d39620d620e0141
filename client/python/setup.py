"""Builds the wheel of the client: the module dotresize.client, and stubs generated from proto/."""

import pathlib

import setuptools
from setuptools.command.build_py import build_py

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
FILES = ["dotresize/v1/job.proto", "dotresize/v1/jobs.proto", "dotresize/v1/sweep.proto"]


class BuildWithStubs(build_py):
    def run(self):
        import grpc_tools
        from grpc_tools import protoc

        super().run()
        out = self.build_lib
        well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"  # google/protobuf
        (pathlib.Path(out) / "dotresize/v1").mkdir(parents=True, exist_ok=True)
        code = protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={out}", f"--grpc_python_out={out}", f"--pyi_out={out}",
                            *FILES])
        if code != 0:
            raise RuntimeError(f"protoc ended with {code}")


setuptools.setup(cmdclass={"build_py": BuildWithStubs})
