"""Makes a state directory with jobs in all final states, a waiting one, and a sweep, for test_compatibility.py:

    .venv/bin/python tests/server/make_compat_state.py tests/data/compat/COMMIT

Models, texts and outputs are in /tmp/dotresize-compat, because the jobs contain their names. It is made anew.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from conftest import BINARIES, PROGRAM, SOURCE, Server, job_pb2, jobs_pb2, spec
from safetensors.numpy import load_file, save_file

WORK = pathlib.Path("/tmp/dotresize-compat")
OPTIONS = {"labels": {"team": "nlp", "round": "1"}, "deadline_s": 3600, "ttl_seconds_after_finished": 4_000_000_000}


def tiny(name, tokens="evaluation", **changes):
    job = spec(WORK / f"out-{name}", name=name, model__path=str(WORK / "docs-llama"),
               calibration__tokens=str(WORK / f"{tokens}.safetensors"), method__name=job_pb2.Method.slicegpt,
               evaluation__tokens=str(WORK / "evaluation.safetensors"), **{"resources__ranks": 1, **changes})
    job.calibration.ClearField("samples")
    return job


def make_inputs():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    shutil.copytree(SOURCE / "examples/docs-llama", WORK / "docs-llama")
    rows = load_file(SOURCE / "tests/data/evaluation.safetensors")["tokens"]
    save_file({"tokens": np.ascontiguousarray(rows[:2, :64])}, WORK / "evaluation.safetensors")
    (WORK / "damaged.safetensors").write_bytes(b"\xff" * 64)


def token():
    done = subprocess.run([PROGRAM, "token", "--tokens", WORK / "tokens", "ann", "admin"], check=True,
                          capture_output=True, text=True)
    (WORK / "ann").write_text(done.stdout)
    return (("authorization", f"Bearer {done.stdout.strip()}"),)


def main(target):
    make_inputs()
    caller = token()
    server = Server(WORK / "state", "--tokens", str(WORK / "tokens")).start()

    def create(job, **options):
        request = jobs_pb2.CreateJobRequest(spec=job, request_id=f"request-{job.name}",
                                            options=jobs_pb2.JobOptions(**options) if options else None)
        return server.jobs.CreateJob(request, timeout=20, metadata=caller).id

    def wait(id_):
        for _ in server.jobs.WatchJob(jobs_pb2.WatchJobRequest(id=id_), timeout=120, metadata=caller):
            pass

    wait(create(tiny("succeeding"), **OPTIONS))
    wait(create(tiny("failing", "damaged", resources__ranks=2)))
    sweep = jobs_pb2.CreateSweepRequest(spec=tiny("sweeping"), request_id="request-sweeping")
    sweep.sweep.axes.add(key="method.size").values.extend([0.9, 0.8])
    wait(server.jobs.CreateSweep(sweep, timeout=60, metadata=caller).job.id)
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20, metadata=caller)
    cancelled = create(tiny("cancelled"))
    server.jobs.CancelJob(jobs_pb2.CancelJobRequest(id=cancelled), timeout=20, metadata=caller)
    create(tiny("waiting"), priority=-3, **OPTIONS)
    create(tiny("first"))
    listed = subprocess.run([BINARIES / "dotresize", "list", "-o", "json"], check=True, capture_output=True, text=True,
                            env={**os.environ, "DOTRESIZE_SERVER": server.endpoint,
                                 "DOTRESIZE_TOKEN_FILE": str(WORK / "ann")})
    target.mkdir()
    (target / "jobs.json").write_text(json.dumps(json.loads(listed.stdout), indent=1) + "\n")
    server.close()
    subprocess.run([PROGRAM, "backup", "--state", WORK / "state", target / "state"], check=True)
    (target / "state").chmod(0o755)  # the mode that git keeps


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
