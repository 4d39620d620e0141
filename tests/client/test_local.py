"""Tests of commands that need no server: plan, run, eval, verify, usage."""

import fcntl
import io
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import numpy as np
import pytest
import yaml
from conftest import BIN, SOURCE, read_until
from safetensors.numpy import save_file

HARDWARE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "hardware"


def test_plan_prints_one_json_document(offline, job_files):
    plan = offline.json("plan", job_files())
    assert [rank["rank"] for rank in plan["ranks"]] == [0, 1]
    assert plan["compressed"]["parameters"] < plan["dense"]["parameters"]


def test_plan_prints_a_table(offline, job_files):
    text = offline("plan", job_files()).stdout
    assert "rank" in text and "peak memory" in text


def test_plan_tells_the_time_on_a_machine(offline, job_files):
    seconds = offline.json("plan", job_files(), "--hardware", HARDWARE / "cpu.yaml")["seconds"]
    assert seconds["total"] == pytest.approx(sum(seconds["phases"].values()))
    assert {"read", "forward", "gram", "eigen", "fold", "hash"} <= seconds["phases"].keys()
    text = offline("plan", job_files(), "--hardware", HARDWARE / "cpu.yaml").stdout
    assert "\ntime  " in text and "\nforward  " in text
    assert "seconds" not in offline.json("plan", job_files())


def test_plan_prints_an_mpijob_and_its_job_file(offline, job_files, tmp_path):
    job = job_files()
    config_map, mpi_job = yaml.safe_load_all(offline("plan", job, "--manifest", "mpijob", "--cpus", "3").stdout)
    name = config_map["metadata"]["name"]
    assert name == mpi_job["metadata"]["name"] and name.startswith("dotresize-")
    worker = mpi_job["spec"]["mpiReplicaSpecs"]["Worker"]
    assert (worker["replicas"], mpi_job["spec"]["slotsPerWorker"]) == (1, 2)
    resources = worker["template"]["spec"]["containers"][0]["resources"]
    ranks = offline.json("plan", job)["ranks"]
    assert resources["requests"]["cpu"] == "6"
    memory = 2 * (max(rank["peak_memory_bytes"] for rank in ranks) + (256 << 20))
    assert 0 <= (int(resources["limits"]["memory"].removesuffix("Mi")) << 20) - memory < 1 << 20
    assert {"name": "dotresize-job", "configMap": {"name": name}} in worker["template"]["spec"]["volumes"]
    command = mpi_job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    assert command[:3] == ["mpirun", "-np", "2"] and command[-1] == "/job/job.json"
    (tmp_path / "again.json").write_text(config_map["data"]["job.json"])
    assert offline.json("plan", tmp_path / "again.json")["ranks"] == ranks
    assert offline.json("plan", job, "--manifest", "mpijob", "--cpus", "3")["items"] == [config_map, mpi_job]
    assert "--manifest" in offline("plan", job, "--cpus", "3", exit_code=64).stderr
    (tmp_path / "template.yaml").write_text("kind: Pod\n")
    error = offline("plan", job, "--manifest", "mpijob", "--template", tmp_path / "template.yaml", exit_code=65).stderr
    assert "template.yaml: is not an MPIJob" in error


def test_plan_on_gpus_is_that_of_their_dtype(offline, job_files):
    plan = offline.json("plan", job_files(), "--hardware", HARDWARE / "v100x8.yaml")
    assert plan["ranks"][0]["peak_device_memory_bytes"] > 0
    assert plan["seconds"]["total"] > 0


def test_a_bad_hardware_file_is_refused_with_file_line_and_key(offline, job_files, tmp_path):
    hardware = tmp_path / "hardware.yaml"
    hardware.write_text((HARDWARE / "cpu.yaml").read_text() + "qrr: 1\n")
    error = offline("plan", job_files(), "--hardware", hardware, exit_code=65).stderr
    assert str(hardware) in error and "unknown key, did you mean 'qr'?" in error
    missing = offline("plan", job_files(), "--hardware", tmp_path / "missing.yaml", exit_code=65)
    assert "missing.yaml" in missing.stderr


def test_a_bad_job_file_is_refused_with_file_line_and_key(offline, tmp_path):
    job = tmp_path / "bad.yaml"
    job.write_text("name: bad\nmethod:\n  name: slicegpt\n  sparsty: 0.2\n")
    for verb in ("plan", "run", "submit"):
        stderr = offline(verb, job, exit_code=65).stderr
        assert f"{job}:4: " in stderr and "sparsty" in stderr and "sparsity" in stderr


def test_with_json_an_error_is_a_document_too(offline, tmp_path):
    error = offline.json("plan", tmp_path / "missing.yaml", exit_code=65)["error"]
    assert error["exit_code"] == 65
    assert "missing.yaml" in error["message"]


@pytest.mark.parametrize("arguments", [
    [], ["frobnicate"], ["plan"], ["status"], ["list", "--state", "lost"],
    ["list", "--limit", "0"], ["list", "-o", "xml"], ["eval", "model"],
    ["eval", "model", "--text", "a", "--tokens", "b"], ["plan", "a.yaml", "b.yaml"],
])
def test_usage_errors(offline, arguments):
    done = offline(*arguments, exit_code=64)
    assert done.stdout == ""
    assert done.stderr


@pytest.mark.parametrize("verb", [
    "init", "run", "plan", "eval", "verify", "export", "vocabulary", "doctor", "submit", "status", "watch", "list", "cancel", "delete",
    "prune", "logs", "report", "fetch", "completion", "admin"])
def test_every_verb_explains_itself(offline, verb):
    help_text = offline(verb, "--help").stdout
    assert "Examples:" in help_text and f"dotresize {verb}" in help_text


def test_version(offline):
    assert offline("--version").stdout.startswith("dotresize ")


def test_run_compresses_without_a_server_and_its_model_can_be_checked(offline, job_files, tmp_path):
    done = offline("run", job_files(output={"report_html": True}), "-o", "json")
    assert len(json.loads(done.stdout)["ranks"]) == 2
    model = tmp_path / "out-tiny"
    offline("verify", model)
    page = tmp_path / "page.html"
    assert offline.json("report", model, "--html", page) == {"page": str(page)}
    assert page.read_bytes() == (model / "dotresize" / "report.html").read_bytes()
    assert '"spectrum":{' in page.read_text() and "  dotresize/report.html\n" in (model / "SHA256SUMS").read_text()
    assert isinstance(offline.json("verify", model), dict)
    assert offline.json("report", model)["schema_version"] == 1
    assert "parameters" in offline("report", model).stdout
    assert isinstance(offline.json("eval", model, "--tokens", job_files.tokens), dict)


def test_run_without_mpirun_says_so_in_its_one_document(offline, job_files, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = offline.json("run", job_files(), exit_code=69)["error"]
    assert error["code"] == "PROGRAM_MISSING" and "mpirun" in error["message"]


def test_run_passes_the_workers_exit_code_on(offline, job_files):
    job = job_files("nothing", calibration={"tokens": "/nonexistent.safetensors"})
    offline("run", job, exit_code=65)


def test_run_that_fails_in_the_worker_has_the_error_in_its_one_document(offline, job_files, tmp_path):
    foreign = tmp_path / "foreign.safetensors"
    save_file({"tokens": np.full(100, 5000, dtype=np.int32)}, foreign)
    job = job_files("foreign", calibration={"tokens": str(foreign), "samples": 1, "seqlen": 64}, resources={"ranks": 1})
    error = offline.json("run", job, exit_code=65)["error"]
    assert (error["code"], error["exit_code"]) == ("INVALID_INPUT", 65) and "outside the vocabulary" in error["message"]


def test_files_that_users_name_are_written_where_they_lead(offline, job_files, tmp_path):
    job, target = job_files(resources={"ranks": 1}), tmp_path / "target"
    target.write_text("old")
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    offline("run", job, "--trace", link)
    assert link.is_symlink() and "traceEvents" in json.loads(target.read_text())
    offline("report", tmp_path / "out-tiny", "--html", link)
    assert link.is_symlink() and target.read_text().startswith("<!doctype html>")
    with open(tmp_path / "piped", "wb") as piped:
        reader = subprocess.Popen(["cat", pipe], stdout=piped)
    offline("report", tmp_path / "out-tiny", "--html", pipe)
    assert reader.wait(20) == 0 and (tmp_path / "piped").read_bytes() == target.read_bytes() and pipe.is_fifo()


def test_a_port_that_does_not_exist_is_not_called(offline):
    assert "a port is a number of 0 to 65535" in offline("list", "--server", "127.0.0.1:65537", exit_code=65).stderr


def test_an_interrupt_of_run_ends_its_ranks(offline, job_files, tmp_path):
    run = offline.start("run", job_files.endless())
    read_until(run.stderr, "calibrate")
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 2, stderr
    assert not list(tmp_path.glob("out-endless*"))


def terminal(command, environment=os.environ, timeout=120):
    """Runs a program on a terminal of 100 columns. Returns the output and the exit code."""
    pid, screen = pty.fork()
    if pid == 0:
        os.environ.update(environment, TERM="xterm", NO_COLOR="1", LC_ALL="C")
        os.execv(command[0], [str(word) for word in command])
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    shown = b""
    deadline = time.monotonic() + timeout
    while select.select([screen], [], [], max(0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(screen, 65536)
        except OSError:  # EIO means that the program has ended
            piece = b""
        if not piece:
            return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        shown += piece
    os.kill(pid, signal.SIGTERM)
    raise AssertionError(f"it has not ended after {timeout} s:\n{shown.decode(errors='replace')}")


def test_a_wait_for_what_does_not_come_has_an_end():
    with pytest.raises(AssertionError, match="it ends without 'second'"):
        read_until(io.StringIO("first\n"), "second")
    with pytest.raises(AssertionError, match="it has not ended after 0.1 s"):
        terminal(["/bin/sleep", "60"], timeout=0.1)


def test_run_draws_one_line_on_a_terminal_and_ends_with_the_table_of_watch(job_files):
    shown, code = terminal([BIN / "dotresize", "run", job_files.evaluated()])
    assert code == 0
    assert re.search(r"\rcalibrate +#*-*  +\d+ %  junctions \d+/", shown), shown
    assert "\x1e" not in shown and " tokens/s, " not in shown
    last = shown.rsplit("\x1b[K", 1)[1]  # the text after the bar was removed
    assert re.search(r"perplexity +[\d.]+ +[\d.]+ +\+[\d.]+ %", last), last
    assert "\nwidth   128 of 256" in last and "\ntook    " in last


def test_a_failing_run_says_one_line(offline, job_files, tmp_path):
    foreign = tmp_path / "foreign.safetensors"
    save_file({"tokens": np.full(100, 5000, dtype=np.int32)}, foreign)
    job = job_files("foreign", calibration={"tokens": str(foreign), "samples": 1, "seqlen": 64})
    lines = offline("run", job, exit_code=65).stderr.splitlines()
    errors = [line for line in lines if "error" in line.lower()]
    assert len(errors) == 1 and "outside the vocabulary" in errors[0], lines
    assert not any("MPI" in line or "----" in line for line in lines), lines
    # --verbose shows mpirun's help text, or its own error if it ends before that arrives.
    verbose = offline("run", job, "--verbose", exit_code=65).stderr
    assert "MPI_ABORT" in verbose or "ORTE_ERROR_LOG" in verbose, verbose


def test_an_unknown_verb_comes_with_the_nearest_one(offline):
    error = offline("pla", "job.yaml", exit_code=64).stderr
    assert error.startswith("dotresize: error: unknown verb 'pla', did you mean plan?\n")
    error = offline("plan", "job.yaml", "--hardwear", exit_code=64).stderr
    assert error.startswith("dotresize: error: plan: unknown option '--hardwear', did you mean --hardware?")


def test_what_the_model_refuses_has_file_and_line_too(offline, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(f"""name: wide
model: {{path: {SOURCE / "examples/docs-llama"}}}
output: {{path: out}}
method:
  width: 999
calibration: {{tokens: {SOURCE / "tests/data/evaluation.safetensors"}}}
""")
    assert f"{job}:5: method.width: 999 is more than" in offline("plan", job, exit_code=65).stderr
    change = "resources.ranks=1000"
    error = offline("plan", job, "--set", "method.width=8", "--set", change, exit_code=65).stderr
    assert f"--set {change}: resources.ranks: 1000 is more than" in error
    job.write_text(job.read_text().replace(str(SOURCE / "examples/docs-llama"), "org/model-1B"))
    error = offline("plan", job, exit_code=65).stderr
    assert f"{job}:2: model.path: " in error and "hf download org/model-1B" in error


def test_plan_sees_what_would_fail_later(offline, job_files, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("too short")
    job = job_files("text", calibration={"tokens": None, "text": [str(text)]})
    assert f"{job}:1: calibration.text: " in offline("plan", job, exit_code=65).stderr
    model = tmp_path / "model"
    shutil.copytree(SOURCE / "examples/docs-llama", model)
    (model / "generation_config.json").write_text("[1]")
    error = offline("plan", job_files("settings", model={"path": str(model)}), exit_code=65).stderr
    assert "model.path: " in error and "generation_config.json: must be a JSON object" in error
    # The text may be longer on another machine.
    offline("plan", job, "--hardware", HARDWARE / "cpu.yaml")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").touch()
    job = job_files("exists", output={"path": str(tmp_path / "there")})
    assert "exists" in offline.json("plan", job)["warnings"][0]
    assert "output.path: " in offline("run", job, exit_code=65).stderr


def test_set_changes_the_job(offline, job_files, tmp_path):
    job = job_files()
    assert offline.json("plan", job, "--set", "method.size=0.7")["target"] == "size 0.7"
    offline("run", job, "--set", "method.width=64", "--set", f"output.path={tmp_path / 'other'}")
    assert offline.json("report", tmp_path / "other")["method"]["width"] == 64
    error = offline("run", job, "--set", "method.sise=0.7", exit_code=65).stderr
    assert "--set method.sise=0.7: method.sise: unknown key, did you mean 'size'?" in error
    assert not (tmp_path / "out-tiny").exists()


def test_plan_shows_the_ways_to_a_size_and_warns_of_narrow_widths(offline, job_files):
    job = job_files()
    sized = ("--set", "method={size: 0.8}")
    alternatives = offline.json("plan", job, *sized)["alternatives"]
    assert [each["width"].isdigit() for each in alternatives] == [False, False, True, True]
    assert alternatives[0]["relative_time"] == 1 and alternatives[2]["relative_time"] < 0.5
    assert all(each["bytes_fraction_at_most"] <= 0.8 for each in alternatives)
    assert "ways to this size" in offline("plan", job, *sized).stdout
    narrow = offline.json("plan", job, "--set", "method={width: 168}")
    assert "alternatives" not in narrow and "less than two thirds of 256" in narrow["warnings"][0]
    assert offline.json("plan", job, "--set", "method={width: 176}")["warnings"] == []


MODEL = SOURCE / "examples/docs-llama"


def test_options_expand_the_home_directory_and_refuse_an_empty_path(offline, job_files, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "machine.yaml").write_text((HARDWARE / "cpu.yaml").read_text())
    assert offline.json("plan", job_files(), "--hardware=~/machine.yaml")["seconds"]["total"] > 0
    assert "--hardware: must not be empty" in offline("plan", job_files(), "--hardware", "", exit_code=64).stderr
    (tmp_path / "m").symlink_to(MODEL)
    assert offline.json("plan", job_files(), "--set", "model.path=~/m")["ranks"]


def test_files_of_the_wrong_kind_come_with_the_verb_for_them(offline, job_files, tmp_path):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(yaml.safe_dump(json.loads(job_files().read_text()) | {"sweep": {"method.width": [64, 128]}}))
    for verb in ("plan", "run"):
        assert f"makes this a sweep, not a job: `dotresize sweep {sweep}` runs it" in offline(verb, sweep, exit_code=65).stderr
    job = job_files()
    assert f"`dotresize run {job}` runs a job" in offline("sweep", job, exit_code=65).stderr
    error = offline("eval", "hf://owner/name", "--latency", exit_code=65).stderr
    assert "is not a local directory; a model of the Hugging Face Hub is fetched with hf download owner/name --local-dir name" in error
    assert "'nothing': no such directory, and not the id of a job" in offline("report", "nothing", exit_code=65).stderr
    assert "--generate: must not be empty" in offline("eval", MODEL, "--generate", "", exit_code=64).stderr


def test_the_job_of_the_readme_and_of_the_sweeps_can_be_planned(offline, tmp_path):
    (tmp_path / "examples/docs-llama").mkdir(parents=True)
    for file in MODEL.iterdir():
        (tmp_path / "examples/docs-llama" / file.name).symlink_to(file)
    for name in ("calibration.txt", "evaluation.txt"):
        text = tmp_path / "examples/docs-llama" / name
        text.unlink(missing_ok=True)
        text.write_text("word " * 300_000)
    job = tmp_path / "job.yaml"
    job.write_text(yaml_blocks(SOURCE / "README.md")[0])
    assert offline.json("plan", job)["warnings"] == []
    job.write_text(yaml_blocks(SOURCE / "docs/sweeps.md")[0])
    assert len(offline.json("sweep", job, "--dry-run")["variants"]) > 1


def yaml_blocks(document):
    return re.findall(r"^```yaml\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)


def test_completion_completes_verbs_options_and_nothing_else(offline):
    def completed(*words):
        script = offline("completion", "bash").stdout
        line = " ".join(f"'{word}'" for word in words)
        return subprocess.run(
            ["bash", "-c", f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _dotresize; "
                           'echo "${COMPREPLY[*]}"'],
            capture_output=True, text=True, check=True).stdout.split()
    assert completed("dotresize", "pl") == ["plan"]
    assert completed("dotresize", "plan", "--hard") == ["--hardware"]
    assert completed("dotresize", "plan", "-o", "") == ["text", "json"]
    assert "--keep-days" in completed("dotresize", "prune", "--")
    assert completed("dotresize", "frob") == []
    assert offline("completion", "zsh").stdout.startswith("#compdef dotresize\n")


def test_several_reports_are_one_table(offline, job_files, tmp_path):
    for width in (64, 128):
        offline("run", job_files.evaluated(f"w{width}", method={"width": width}))
    models = [tmp_path / "out-w64", tmp_path / "out-w128"]
    lines = offline("report", *models).stdout.splitlines()
    assert lines[0].split()[:3] == ["name", "method", "target"] and len(lines) == 3
    assert "64 of 256" in lines[1] and lines[2].endswith(f"  {models[1]}")
    page = tmp_path / "page.html"
    offline("report", *models, "--html", page)
    assert '"kind":"comparison"' in page.read_text() and str(models[0]) in page.read_text()
    assert not list(models[0].glob("dotresize/*.html"))
    error = offline("report", *models, "--html", tmp_path / "absent" / "page.html", exit_code=1).stderr
    assert f"{tmp_path}/absent/page.html: cannot write the file: No such file or directory" in error
    reports = offline.json("report", *models)["reports"]
    assert [report["method"]["width"] for report in reports] == [64, 128]


def test_a_path_that_is_not_there_is_said_to_be_missing_and_no_server_is_asked(offline, tmp_path):
    for path in (tmp_path / "out/gone", "out/gone", "model.safetensors"):
        for options in ((), ("--html", tmp_path / "page.html")):
            error = offline("report", path, *options, exit_code=65).stderr
            assert f"'{path}': no such directory" in error and "server" not in error


def test_eval_takes_the_windows_of_the_report(offline, job_files, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 100)
    offline("run", job_files("windows", calibration={"tokens": None, "text": [str(text)],
                                                     "samples": 4, "seqlen": 128},
                             evaluation={"text": [str(text)]}))
    model = tmp_path / "out-windows"
    report = offline.json("report", model)
    found = offline.json("eval", model, "--text", text)
    assert found["models"][0]["seqlen"] == 128 and found["warnings"] == []
    assert found["models"][0]["perplexity"] == pytest.approx(report["compressed"]["perplexity"], rel=1e-5)
    [warning] = offline.json("eval", model, "--text", text, "--seqlen", "64")["warnings"]
    assert "--seqlen 128" in warning


def test_eval_continues_a_text_as_transformers_does(offline):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, prompt = SOURCE / "examples/docs-llama", "The module"
    tokenizer = AutoTokenizer.from_pretrained(model)
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    dense = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    written = dense.generate(**ids, max_new_tokens=8, do_sample=False)[0, ids["input_ids"].shape[1]:]
    found = offline.json("eval", model, "--generate", prompt, "--generate=-x", "--new-tokens", "8")
    assert found["generation"] == {"prompts": [prompt, "-x"], "new_tokens": 8}
    [continuations] = [entry["continuations"] for entry in found["models"]]
    assert continuations[0] == tokenizer.decode(written) and len(continuations) == 2
    text = offline("eval", model, "--generate", prompt, "--new-tokens", "8").stdout
    assert continuations[0].replace("\n", " ") in text
    offline("eval", model, "--generate", "x", "--runtime", "transformers", exit_code=64)


def test_verify_of_a_folder_that_dotresize_has_not_written(offline):
    error = offline("verify", SOURCE / "examples/docs-llama", exit_code=65).stderr
    assert "not written by dotresize" in error


def test_report_of_a_folder_that_is_no_model(offline, tmp_path):
    assert "report.json" in offline("report", tmp_path, exit_code=65).stderr
