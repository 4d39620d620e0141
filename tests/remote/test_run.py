"""Tests of `dotresize run` with a remote model, texts and output."""

import fcntl
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess

from conftest import BIN, MODEL, MODEL_FILES, SOURCE
from services import BUCKET

NEEDED = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


def gets(service, name):
    return [request for request in service.requests if request[0] == "GET" and request[1].endswith(name)]


def sums_hold(s3, prefix):
    lines = s3.read(f"{prefix}/SHA256SUMS").decode().splitlines()
    for line in lines:
        digest, name = line.split("  ", 1)
        assert hashlib.sha256(s3.read(f"{prefix}/{name}")).hexdigest() == digest, name
    return len(lines)


def test_from_s3_to_s3(dotresize, job, s3, tmp_path):
    s3.put("in/docs-llama", MODEL)
    done = dotresize("run", job(f"s3://{BUCKET}/in/docs-llama", f"s3://{BUCKET}/out/small"), **s3.environment)
    assert f"pushed to s3://{BUCKET}/out/small (" in done.stdout
    assert "fetch 0 %, 0 B of 12.8 MiB" in done.stderr and "push 0 %, 0 B of " in done.stderr
    assert sums_hold(s3, "out/small") > 5
    names = s3.names("out/small")
    assert {"README.md", "config.json", "dotresize/report.json"} <= set(names) and "dotresize/unfinished-push" not in names
    assert not any("the-secret-key" in text for text in (done.stdout, done.stderr, (tmp_path / "job.json").read_text()))
    report = s3.read("out/small/dotresize/report.json").decode()
    assert str(tmp_path / "cache") not in report and f'"path": "s3://{BUCKET}/in/docs-llama@' in report
    assert not list((tmp_path / "cache/outputs").glob("*")), "what was pushed is removed here"
    # The helper fetches only the files that a model needs: no code, no other formats.
    [copy] = (tmp_path / "cache/entries").glob("*/docs-llama/model.safetensors")
    assert sorted(file.name for file in copy.parent.iterdir()) == NEEDED


def test_what_is_fetched_is_what_is_read(fetch, s3, tmp_path):
    s3.put("in/both", MODEL)
    stale = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    s3.client.put_object(Bucket=BUCKET, Key="in/both/model.safetensors.index.json", Body=json.dumps(stale).encode())
    s3.client.put_object(Bucket=BUCKET, Key="in/both/adapter_config.json", Body=b"{}")
    copy = pathlib.Path(fetch(f"s3://{BUCKET}/in/both", **s3.environment)["result"]["path"])
    assert sorted(file.name for file in copy.iterdir()) == sorted([*NEEDED, "adapter_config.json"])
    header = (SOURCE / "job" / "model" / "read_model_config.h").read_text()
    companions = " ".join(re.findall(r"k(?:Companion|Processor)Files = \{([^}]*)\}", header))
    [fetched] = re.findall(r"COMPANIONS = \{([^}]*)\}", (SOURCE / "worker" / "python" / "remote_cache.py").read_text())
    assert sorted(re.findall(r'"([^"]+)"', fetched)) == sorted(re.findall(r'"([^"]+)"', companions))


def test_what_makes_a_model_loadable_is_pushed_last(dotresize, job, s3):
    dotresize("run", job(MODEL, f"s3://{BUCKET}/out/small"), **s3.environment)
    written = [path.partition("/out/small/")[2] for method, path, _ in s3.requests if method in ("PUT", "DELETE") and "/out/" in path]
    assert written[0] == "dotresize/unfinished-push" and written[-1] == "dotresize/unfinished-push"
    assert written[-3:-1] == ["model.safetensors.index.json", "SHA256SUMS"] and written[-4] == "config.json", written
    # The old output is removed before the new one comes, so that nobody loads a mixture.
    narrower = job(MODEL, f"s3://{BUCKET}/out/small", method={"name": "slicegpt", "width": 64})
    refused = dotresize("run", narrower, exit_code=65, **s3.environment)
    assert "exists; output.overwrite: true replaces it" in refused.stderr
    # Files of an earlier output are removed. Models in folders beneath it stay.
    for name in ("old.safetensors", "dotresize/old.html", "nested/config.json", "nested/dotresize/report.json"):
        s3.client.put_object(Bucket=BUCKET, Key=f"out/small/{name}", Body=b"{}")
    s3.requests.clear()
    dotresize("run", narrower, "--set", "output.overwrite=true", **s3.environment)
    names = s3.names("out/small")
    assert {"nested/config.json", "nested/dotresize/report.json"} <= set(names)
    assert not {"old.safetensors", "dotresize/old.html"} & set(names)
    changes = [(method, path.partition("/out/small/")[2]) for method, path, _ in s3.requests if method in ("PUT", "DELETE")]
    first = next(index for index, (method, _) in enumerate(changes) if method == "PUT")
    assert ("DELETE", "model.safetensors.index.json") in changes[:first]
    assert sums_hold(s3, "out/small") > 5


def test_from_the_hub_by_commit(dotresize, fetch, job, hub, tmp_path):
    commit = hub.commit("org/tiny", MODEL_FILES)
    file = job("hf://org/tiny", tmp_path / "out")
    hub.cut["model.safetensors"] = 5_000_000  # the first answer breaks off
    dotresize("run", file, **hub.environment)
    ranges = [given for _, _, given in gets(hub, "model.safetensors")]
    assert len(ranges) == 2 and ranges[0] == "bytes=0-" and ranges[1] not in (None, "bytes=0-"), ranges
    assert all(commit in path for _, path, _ in gets(hub, "model.safetensors")), "the commit, not the branch"
    report = (tmp_path / "out/dotresize/report.json").read_text()
    assert json.loads(report)["model"]["path"] == f"hf://org/tiny@{commit}" and str(tmp_path / "cache") not in report
    # The same commit by its id: nothing is fetched again.
    assert fetch(f"hf://org/tiny@{commit}", **hub.environment)["result"]["revision"] == commit
    assert len(gets(hub, "model.safetensors")) == 2
    # Another commit is another model.
    second = hub.commit("org/tiny", MODEL_FILES | {"README.md": b"new"})
    assert fetch("hf://org/tiny", **hub.environment)["result"]["revision"] == second
    assert len(gets(hub, "model.safetensors")) == 3


def test_a_killed_download_goes_on(fetch, s3, tmp_path):
    """The download resumes in the middle of the file if the object has not changed."""
    s3.put("in/docs-llama", MODEL)
    s3.cut[f"/{BUCKET}/in/docs-llama/model.safetensors"] = 5_000_000
    patient = s3.environment | {"DOTRESIZE_REMOTE_PATIENCE": "0"}
    assert fetch(f"s3://{BUCKET}/in/docs-llama", **patient)["error"]["code"] == "NETWORK"
    [part] = (tmp_path / "cache/partial").glob("*/*/model.safetensors.part")
    there = part.stat().st_size
    assert there > 0
    copy = pathlib.Path(fetch(f"s3://{BUCKET}/in/docs-llama", **s3.environment)["result"]["path"])
    assert gets(s3, "model.safetensors")[-1][2] == f"bytes={there}-"
    assert all((copy / name).read_bytes() == MODEL_FILES[name] for name in NEEDED)
    # A changed object has another ETag: another copy.
    s3.client.put_object(Bucket=BUCKET, Key="in/docs-llama/generation_config.json", Body=b"{}")
    assert fetch(f"s3://{BUCKET}/in/docs-llama", **s3.environment)["result"]["path"] != str(copy)


def test_to_the_hub_in_one_commit(dotresize, job, hub):
    file = job(MODEL, "hf://org/small")
    refused = dotresize("run", file, exit_code=77, **hub.environment)
    assert "NO_CREDENTIALS" in refused.stderr or "HF_TOKEN" in refused.stderr
    dotresize("run", file, HF_TOKEN=hub.token, **hub.environment)
    commits = hub.repos["models/org/small"]
    assert len(commits) == 2 and "models/org/small" in hub.private
    files = commits[-1][1]
    for line in files["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ", 1)
        assert hashlib.sha256(files[name]).hexdigest() == digest
    assert "exists" in dotresize("run", file, "--set", "method.width=64", exit_code=65, HF_TOKEN=hub.token, **hub.environment).stderr


def test_bytes_that_are_not_those_of_the_commit_are_refused(dotresize, fetch, job, hub, tmp_path):
    commit = hub.commit("org/tiny", MODEL_FILES)
    dotresize("plan", job("hf://org/tiny", tmp_path / "out"), **hub.environment)  # fetches all but the weights
    assert not gets(hub, "model.safetensors")
    content = MODEL_FILES["model.safetensors"]
    hub.sent[commit, "model.safetensors"] = content[:-1] + bytes([content[-1] ^ 1])
    error = fetch("hf://org/tiny", **hub.environment)["error"]
    assert error["code"] == "INVALID" and "has other bytes than its sha256 hash says" in error["message"]


def test_refusals_have_names(dotresize, job, s3, hub, tmp_path):
    def refused(model, exit_code, **environment):
        done = dotresize("run", job(model, tmp_path / "out"), exit_code=exit_code, **environment)
        [line] = [line for line in done.stderr.splitlines() if line.startswith("dotresize: error:")]
        return line.partition("model.path: ")[2]
    assert refused(f"s3://{BUCKET}/nothing", 65, **s3.environment).startswith("NOT_FOUND: ")
    assert refused(f"s3://{BUCKET}/nothing", 77, AWS_ENDPOINT_URL=s3.endpoint).startswith("NO_CREDENTIALS: ")
    assert refused("hf://org/none", 65, HF_TOKEN=hub.token, **hub.environment).startswith("NOT_FOUND: ")
    hub.commit("org/hidden", MODEL_FILES)
    hub.private.add("models/org/hidden")
    assert refused("hf://org/hidden", 77, **hub.environment).startswith("NO_CREDENTIALS: ")
    hub.forbidden.add("models/org/hidden")
    assert refused("hf://org/hidden", 77, HF_TOKEN=hub.token, **hub.environment).startswith("NO_PERMISSION: ")
    s3.refused = ("GET",)
    assert refused(f"s3://{BUCKET}/in/docs-llama", 77, **s3.environment).startswith("NO_PERMISSION: ")
    assert refused(f"s3://{BUCKET}/x", 75, **(s3.environment | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})).startswith("NETWORK: ")
    for url in ("s3://bucket", "s3://bucket/../x", "hf://org", "hf://org/../x", "hf://org/name/file"):
        done = dotresize("run", job(url, tmp_path / "out"), exit_code=65)
        assert "model.path: " in done.stderr and " is not " in done.stderr, url


def test_texts_and_tokens(dotresize, job, s3, hub, tokens, tmp_path):
    s3.client.upload_file(str(tokens), BUCKET, "data/tokens.safetensors")
    text = b"The with statement is used to wrap the execution of a block. " * 200
    hub.commit("org/texts", {"docs/python.txt": text}, "datasets")
    file = job(MODEL, tmp_path / "out", calibration={"text": ["hf://datasets/org/texts@main/docs/python.txt"], "samples": 2, "seqlen": 64},
               evaluation={"tokens": f"s3://{BUCKET}/data/tokens.safetensors"})
    dotresize("run", file, **s3.environment, **hub.environment)
    report = json.loads((tmp_path / "out/dotresize/report.json").read_text())
    assert report["compressed"]["perplexity"] > 1


def test_the_cache_is_bounded(fetch, s3):
    s3.put("in/first", MODEL)
    s3.put("in/second", MODEL)
    size = sum(len(content) for name, content in MODEL_FILES.items() if name in NEEDED)
    first = pathlib.Path(fetch(f"s3://{BUCKET}/in/first", cache_size=size + size // 2, **s3.environment)["result"]["path"])
    using = os.open(first.parent, os.O_RDONLY)
    fcntl.flock(using, fcntl.LOCK_SH)  # a job holds this lock
    refused = fetch(f"s3://{BUCKET}/in/second", cache_size=size + size // 2, **s3.environment)
    assert refused["error"]["code"] == "NO_SPACE" and first.exists()
    os.close(using)
    assert "result" in fetch(f"s3://{BUCKET}/in/second", cache_size=size + size // 2, **s3.environment)
    assert not first.exists(), "least recently used"


def test_a_broken_off_push_goes_on(dotresize, job, s3, environment, tmp_path):
    """A run killed while it sends weights: the next one neither computes nor sends again what has arrived."""
    file = job(MODEL, f"s3://{BUCKET}/out/small")
    s3.hold.clear()
    process = subprocess.Popen([BIN / "dotresize", "run", file], env=environment | s3.environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    assert s3.held.acquire(timeout=60)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2, errors
    s3.hold.set()
    names = s3.names("out/small")
    assert "SHA256SUMS" not in names and "config.json" not in names
    [made] = (tmp_path / "cache/outputs").glob("*/small/dotresize/report.json")
    before = json.loads(made.read_text())
    done = dotresize("run", file, **s3.environment)
    assert "pushed to" in done.stdout and "calibrate" not in done.stderr
    assert json.loads(s3.read("out/small/dotresize/report.json")) == before
    assert sums_hold(s3, "out/small") > 5


def test_a_sweep_takes_local_files(dotresize, job, tmp_path):
    file = job("hf://org/tiny", tmp_path / "out", sweep={"method.width": [64, 128]}, method={"name": "slicegpt"})
    assert "must be on this machine" in dotresize("sweep", file, exit_code=65).stderr
    assert pathlib.Path(file).exists()
