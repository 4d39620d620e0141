"""What needs no server: plan, run, eval, verify, usage."""

import json
import pathlib
import signal

import pytest

HARDWARE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "hardware"


def test_plan_prints_one_json_document(offline, job_files):
    plan = offline.json("plan", job_files())
    assert [rank["rank"] for rank in plan["ranks"]] == [0, 1]
    assert plan["compressed"]["parameters"] < plan["dense"]["parameters"]


def test_plan_prints_a_table(offline, job_files):
    text = offline("plan", job_files()).stdout
    assert "rank" in text and "peak memory" in text


def test_plan_tells_the_time_on_a_machine(offline, job_files):
    time = offline.json("plan", job_files(), "--hardware", HARDWARE / "cpu.yaml")["seconds"]
    assert time["total"] == pytest.approx(sum(time["phases"].values()))
    assert {"read", "forward", "gram", "eigen", "fold", "hash"} <= time["phases"].keys()
    text = offline("plan", job_files(), "--hardware", HARDWARE / "cpu.yaml").stdout
    assert "\ntime  " in text and "\nforward  " in text
    assert "seconds" not in offline.json("plan", job_files())


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
    "run", "plan", "eval", "verify", "submit", "status", "watch", "list", "cancel", "delete",
    "logs", "report", "admin"])
def test_every_verb_explains_itself(offline, verb):
    help_text = offline(verb, "--help").stdout
    assert "Examples:" in help_text and f"dotresize {verb}" in help_text


def test_version(offline):
    assert offline("--version").stdout.startswith("dotresize ")


def test_run_compresses_without_a_server_and_its_model_can_be_checked(offline, job_files, tmp_path):
    done = offline("run", job_files(), "-o", "json")
    assert len(json.loads(done.stdout)["ranks"]) == 2
    model = tmp_path / "out-tiny"
    offline("verify", model)
    assert isinstance(offline.json("verify", model), dict)
    assert offline.json("report", model)["schema_version"] == 1
    assert "parameters" in offline("report", model).stdout
    assert isinstance(offline.json("eval", model, "--tokens", job_files.tokens), dict)


def test_run_passes_the_workers_exit_code_on(offline, job_files):
    job = job_files("nothing", calibration={"tokens": "/nonexistent.safetensors"})
    offline("run", job, exit_code=65)


def test_an_interrupt_of_run_ends_its_ranks(offline, job_files, tmp_path):
    run = offline.start("run", job_files.endless())
    while "calibrate" not in run.stderr.readline():
        pass
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 2, stderr
    assert not list(tmp_path.glob("out-endless*"))


def test_report_of_a_folder_that_is_no_model(offline, tmp_path):
    assert "report.json" in offline("report", tmp_path, exit_code=65).stderr
