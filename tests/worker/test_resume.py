"""Tests that an interrupted job resumes from its journal, to the same model."""

import copy
import functools
import json
import os
import shutil
import signal
import subprocess
import sys

import harness
import interrupted
import pytest
import torch
from safetensors.torch import load_file, save_file

sys.path.append(str(harness.ROOT / "tests"))
from small_disk import fill, small_disk  # noqa: E402

JUNCTIONS = 12
WITH_ONE_MAP = 13  # junctions including the sliced head
SCHEDULES = {
    "own maps": ("original", {"width": 160}),
    "shared maps": ("original", {"width": 160, "format": "stock"}),
    "token_parallel": ("compressed", {"width": 160}),
    "metric of the loss": ("original", {"width": 160, "metric": "fisher"}),
    "narrower MLPs": ("original", {"width": 160, "metric": "fisher", "mlp": {"width": 512}}),
}
SAMPLES = {"narrower MLPs": 2, "allocated": 2}  # these jobs pass through the model many times
# The output is float32, so 1.6 of the bytes are 0.8 of the parameters.
SCHEDULES["allocated"] = ("original", {"size": 1.6, "allocate": "auto"})
# Journal entries before the kill: some of the six cut MLPs; or twelve curves and gradients, and some cuts for the trial.
ENTRIES = {"narrower MLPs": 3, "allocated": 28}


def small_job(output, schedule="own maps", ranks=1, name="pca_dotresize"):
    activations, method = SCHEDULES[schedule]
    return harness.job(
        output,
        method=method if "allocate" in method else {"name": name, **method},
        samples=SAMPLES.get(schedule, 4),
        activations=activations,
        ranks=ranks,
        evaluate=False,
    )


def in_many_groups(spec, directory):
    """Returns the same job with a budget for four groups, so that its entries do not come all at once."""
    if spec["calibration"]["activations"] == "compressed":
        return spec
    resources = {**spec["resources"], "memory": harness.budget_for(spec, directory, 4)}
    return {**spec, "resources": resources}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Returns the outcome of an uninterrupted job of a schedule, with one rank and one thread."""

    @functools.cache
    def outcome(schedule):
        directory = tmp_path_factory.mktemp("uninterrupted")
        spec = small_job(directory / "out", schedule)
        harness.run_to_report(spec, directory, threads=1)
        return harness.outcome(directory / "out")

    return outcome


@pytest.mark.parametrize(
    "schedule, victim, ranks, ranks_after, threads_after",
    [
        ("own maps", "another rank", 3, 1, 2),
        ("shared maps", "rank 0", 2, 3, 1),
        ("token_parallel", "mpirun", 3, 1, 2),
        ("metric of the loss", "another rank", 3, 2, 1),
        ("narrower MLPs", "rank 0", 2, 3, 1),
        ("allocated", "all ranks", 2, 3, 1),
    ],
)
def test_a_killed_job_goes_on(
    schedule, victim, ranks, ranks_after, threads_after, uninterrupted, tmp_path
):
    spec = small_job(tmp_path / "out", schedule, ranks)
    kill = functools.partial(interrupted.kill, kind=victim)
    count = ENTRIES.get(schedule, 5)
    entries = interrupted.run_to_entries(in_many_groups(spec, tmp_path), tmp_path, count, kill)
    finished = interrupted.solved(interrupted.journal_of(spec))
    spec["resources"]["ranks"] = ranks_after
    code, log, rewritten = interrupted.finish_watched(spec, tmp_path, threads_after)

    assert code == 0, log
    junctions = WITH_ONE_MAP if schedule == "shared maps" else JUNCTIONS
    done = f"{len(finished)} of {junctions} junctions are solved"
    if schedule == "allocated":  # it has no maps
        done = f"{len(entries)} results are kept"
    assert f"resuming: {done}; {tmp_path}/out" in log
    # An unfinished junction may have a map already, which is solved again.
    unfinished = {name for name in entries if name.replace("map", "junction") not in finished}
    assert rewritten <= {name for name in unfinished if name.startswith(("map-", "shared-"))}
    assert harness.outcome(tmp_path / "out") == uninterrupted(schedule)


@pytest.fixture(scope="module")
def half_done(tmp_path_factory):
    """Returns a directory with a copy of the model and the remains of a job of one rank, killed after five junctions."""
    directory = tmp_path_factory.mktemp("half-done")
    shutil.copytree(harness.MODEL, directory / "model")
    spec = in_many_groups(job_on_copy(directory), directory)
    kill = functools.partial(interrupted.kill, kind="rank 0")
    interrupted.run_to_entries(spec, directory, 2 * 5, kill)
    return directory


def job_on_copy(directory):
    spec = small_job(directory / "out")
    spec["model"]["path"] = str(directory / "model")
    return spec


@pytest.fixture
def spec(half_done, tmp_path):
    """Returns the same job elsewhere. The copies of the files keep their times."""
    for name in ("model", "out.partial"):
        shutil.copytree(half_done / name, tmp_path / name)
    return job_on_copy(tmp_path)


@pytest.fixture
def journal(spec):
    return interrupted.journal_of(spec)


def test_damaged_entries_are_computed_again(spec, journal, uninterrupted, tmp_path):
    finished = len(interrupted.solved(journal))
    interrupted.truncate(journal / "map-0.safetensors")
    interrupted.flip_bit(journal / "map-1.safetensors")
    (journal / "map-2.safetensors").unlink()
    (journal / "map-3.json").write_text('["sha256"]')
    (journal / "junction-4.json").write_text("")
    damaged = {"map-0", "map-1", "map-2", "map-3", "junction-4"}
    spec["resources"]["ranks"] = 3
    code, log, _ = interrupted.finish_watched(spec, tmp_path)

    assert code == 0, log
    for name in interrupted.entries(journal) | damaged:
        note = f"note: {name} of the journal is damaged and will be computed again\n"
        assert (note in log) == (name in damaged)
    assert f"resuming: {finished - 5} of {JUNCTIONS} junctions are solved" in log
    assert harness.outcome(tmp_path / "out") == uninterrupted("own maps")


def test_sidecars_that_are_still_json_are_noticed_too(spec, journal, uninterrupted, tmp_path):
    for name, change in [
        ("junction-2", lambda value: value.pop("effective_rank")),
        ("junction-3", lambda value: value.update(retained_energy=value["retained_energy"] / 2)),
    ]:
        sidecar = json.loads((journal / f"{name}.json").read_text())
        change(sidecar["value"])
        (journal / f"{name}.json").write_text(json.dumps(sidecar))
    done = harness.run(spec, tmp_path, threads=1)
    assert done.returncode == 0, done.stderr
    assert "note: junction-2 of the journal is damaged" in done.stderr
    assert "note: junction-3 of the journal is damaged" in done.stderr
    assert harness.outcome(tmp_path / "out") == uninterrupted("own maps")


def test_weights_that_were_changed_since_are_refused(spec, tmp_path):
    interrupted.change_weights(spec)
    done = harness.run(spec, tmp_path, threads=1)
    assert done.returncode == 65, done.stderr
    assert "was replaced or changed since the interrupted run" in done.stderr
    assert not (tmp_path / "out").exists()


def test_weights_that_are_changed_during_the_run_are_refused(spec, tmp_path):
    def change_and_wait(running):
        interrupted.change_weights(spec)
        code, _ = running.end()
        assert code == 65, running.log
        assert "was replaced or changed while the job ran" in running.log

    shutil.rmtree(interrupted.partial_of(spec))
    interrupted.run_to_entries(in_many_groups(spec, tmp_path), tmp_path, 2, change_and_wait)


def end_with_sigterm(running):
    ranks = running.ranks()
    os.kill(ranks[0].pid, signal.SIGTERM)
    code, _ = running.end()
    assert code == 2
    assert harness.all_gone(ranks)


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    """Returns the remains of a job with shared maps, killed when some junctions were described and others not."""
    directory = tmp_path_factory.mktemp("summed")
    everything = 2 * WITH_ONE_MAP + 3  # first, second; rotation, map and shared
    kill = functools.partial(interrupted.kill, kind="rank 0")
    interrupted.run_to_entries(small_job(directory / "out", "shared maps"), directory, everything + 1, kill)
    return directory


@pytest.mark.parametrize("damaged", [["first-0"], ["rotation-0", "second-1"], ["shared-0"]])
def test_damaged_sums_of_shared_maps_are_computed_again(damaged, summed, uninterrupted, tmp_path):
    shutil.copytree(summed / "out.partial", tmp_path / "out.partial")
    spec = small_job(tmp_path / "out", "shared maps")
    journal = interrupted.journal_of(spec)
    (journal / "junction-1.json").unlink(missing_ok=True)
    for name in damaged:
        (journal / f"{name}.json").write_text("")
    done = harness.run(spec, tmp_path, threads=1)
    assert done.returncode == 0, done.stderr
    assert harness.outcome(tmp_path / "out") == uninterrupted("shared maps")


def test_damaged_alignments_are_computed_again(uninterrupted, tmp_path):
    spec = small_job(tmp_path / "out")
    interrupted.run_to_entries(
        spec, tmp_path, 2 * JUNCTIONS + 4, functools.partial(interrupted.kill, kind="rank 0")
    )
    interrupted.truncate(interrupted.journal_of(spec) / "shortcut-0.safetensors")
    spec["resources"]["ranks"] = 3
    done = harness.run(spec, tmp_path, threads=1)
    assert done.returncode == 0, done.stderr
    assert "note: shortcut-0 of the journal is damaged" in done.stderr
    assert harness.outcome(tmp_path / "out") == uninterrupted("own maps")


def touch_model(spec, tmp_path):
    os.utime(tmp_path / "model" / "model.safetensors")


def other_tokens(spec, tmp_path):
    tokens = load_file(harness.CALIBRATION)["tokens"]
    path = tmp_path / "tokens.safetensors"
    save_file({"tokens": torch.flip(tokens, [0])}, path)
    spec["calibration"]["tokens"] = str(path)


def other_windows(spec, tmp_path):
    """Returns the job with the same tokens in shorter windows."""
    tokens = load_file(harness.CALIBRATION)["tokens"][:4]
    path = tmp_path / "tokens.safetensors"
    save_file({"tokens": tokens.reshape(16, -1)}, path)
    spec["calibration"].update(tokens=str(path), samples=16)


def other_method(spec, tmp_path):
    spec["method"]["name"] = "dotresize"


def other_lambda(spec, tmp_path):
    spec["method"]["lambda"] = 0.2


def other_width(spec, tmp_path):
    spec["method"]["width"] = 168


def other_head(spec, tmp_path):
    spec["method"]["head"] = "sliced"


def other_schedule(spec, tmp_path):
    spec["calibration"]["activations"] = "compressed"


def other_config(spec, tmp_path):
    path = tmp_path / "model" / "config.json"
    path.write_text(path.read_text() + "\n")


FOREIGN = [
    (touch_model, "model.model.safetensors.modified is "),
    (other_config, "model.config.json is "),
    (other_tokens, "calibration_tokens is "),
    (other_windows, "calibration.samples is 16, and 4 in the journal"),
    (other_method, 'method.name is "dotresize", and "pca_dotresize" in the journal'),
    (other_lambda, "method.lambda is 0.2, and "),
    (other_width, "method.width is 168, and 160 in the journal"),
    (other_head, "method.head_sliced is true, and false in the journal"),
    (other_schedule, 'schedule is "token_parallel", and "pipeline" in the journal'),
]


def files(journal):
    """Returns the journal's files, except unfinished ones of the killed job, which are removed at once."""
    whole = (path for path in journal.iterdir() if ".tmp" not in path.name)
    return {path.name: path.read_bytes() for path in whole}


def test_a_journal_of_another_job_is_refused_by_what_differs(spec, half_done, tmp_path):
    before = files(interrupted.journal_of(spec))
    for number, (change, difference) in enumerate(FOREIGN):
        directory = tmp_path / str(number)
        for name in ("model", "out.partial"):
            shutil.copytree(half_done / name, directory / name)
        other = job_on_copy(directory)
        change(other, directory)
        refused = harness.run(other, directory)
        assert refused.returncode == 65, refused.stderr
        where = f"output.path: {directory}/out.partial/journal"
        assert f"{where} is the journal of another job: {difference}" in refused.stderr
        assert "--fresh starts the job again from the beginning" in refused.stderr
        assert files(interrupted.journal_of(other)) == before
        assert [path.name for path in (directory / "out.partial").iterdir()] == ["journal"]


def cut_off(path):
    interrupted.truncate(path)


def as_an_empty_object(path):
    path.write_text("{}")


def as_an_array(path):
    path.write_text("[]")


def without_it(path):
    path.unlink()


def with_threads_in_words(path):
    interrupted.change_job(path.parent, lambda job: job.update(decomposition_threads="two"))


@pytest.mark.parametrize(
    "damage", [cut_off, as_an_empty_object, as_an_array, without_it, with_threads_in_words]
)
def test_a_journal_that_does_not_say_whose_it_is_is_refused(damage, spec, journal, tmp_path):
    damage(journal / "job.json")
    before = files(journal)
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65, refused.stderr
    assert "output.path: " in refused.stderr and "journal" in refused.stderr
    assert "--fresh starts the job again from the beginning" in refused.stderr
    assert files(journal) == before


def test_fresh_starts_anew(spec, journal, tmp_path):
    spec["method"]["lambda"] = 0.2
    done = harness.run(spec, tmp_path, threads=1, options=["--fresh"])
    assert done.returncode == 0, done.stderr
    assert "resuming" not in done.stderr
    again = copy.deepcopy(spec)
    again["output"]["path"] = str(tmp_path / "again")
    harness.run_to_report(again, tmp_path, threads=1)
    assert harness.shard_hashes(tmp_path / "out") == harness.shard_hashes(tmp_path / "again")


def test_another_budget_goes_on(spec, uninterrupted, tmp_path):
    done = harness.run(in_many_groups(spec, tmp_path), tmp_path, threads=1)
    assert done.returncode == 0, done.stderr
    assert "resuming: " in done.stderr
    assert harness.outcome(tmp_path / "out") == uninterrupted("own maps")


def with_evaluation(spec, directory, seqlen, kl=True):
    path = directory / "evaluation.safetensors"
    save_file({"tokens": load_file(harness.EVALUATION)["tokens"][:4].contiguous()}, path)
    evaluation = {"tokens": str(path), "seqlen": seqlen, "kl": kl}
    return {**copy.deepcopy(spec), "evaluation": evaluation}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Returns the report of an uninterrupted job that evaluates windows of a length."""

    @functools.cache
    def report(seqlen):
        directory = tmp_path_factory.mktemp("evaluated")
        spec = with_evaluation(small_job(directory / "out"), directory, seqlen)
        return harness.run_to_report(spec, directory, threads=1)

    return report


@pytest.mark.parametrize("kl_before, seqlen, kept", [(True, 512, True), (True, 256, False), (False, 512, False)])
def test_the_dense_evaluation_is_kept_for_the_same_windows_alone(kl_before, seqlen, kept, evaluated, tmp_path):
    """The dense evaluation includes the data that the predictions are compared with."""
    spec = small_job(tmp_path / "out", ranks=3)
    before = in_many_groups(with_evaluation(spec, tmp_path, 512, kl_before), tmp_path)
    kill = functools.partial(interrupted.kill, kind="rank 0")
    interrupted.run_to_entries(before, tmp_path, 4 if kl_before else 1, kill)
    names = sorted(name.split("-")[0] for name in interrupted.entries(interrupted.journal_of(spec)))
    assert names[:4] == (["dense", *3 * ["states"]] if kl_before else ["dense"])

    spec["resources"]["ranks"] = 2
    resumed = harness.run(with_evaluation(spec, tmp_path, seqlen), tmp_path, threads=1)
    assert resumed.returncode == 0, resumed.stderr
    assert ("evaluate_dense" not in resumed.stderr) == kept
    expected = evaluated(seqlen)
    found = harness.report(tmp_path / "out")
    for model, values in [("dense", ["perplexity"]), ("compressed", ["perplexity", "kl", "agreement"])]:
        assert [found[model][value] for value in values] == [expected[model][value] for value in values]


def test_nothing_of_the_journal_is_in_the_output(spec, tmp_path):
    harness.run_to_report(spec, tmp_path)
    again = copy.deepcopy(spec)
    again["output"]["path"] = str(tmp_path / "again")
    harness.run_to_report(again, tmp_path)
    names = [
        sorted(str(path.relative_to(output)) for path in output.rglob("*"))
        for output in (tmp_path / "out", tmp_path / "again")
    ]
    assert names[0] == names[1]
    assert sorted(path.name for path in tmp_path.glob("*.partial")) == []


def test_sigterm_keeps_a_journal_that_has_entries_and_nothing_else(spec, uninterrupted, tmp_path):
    shutil.rmtree(interrupted.partial_of(spec))
    interrupted.run_to_entries(in_many_groups(spec, tmp_path), tmp_path, 4, end_with_sigterm)
    assert [path.name for path in interrupted.partial_of(spec).iterdir()] == ["journal"]
    harness.run_to_report(spec, tmp_path, threads=1)
    assert harness.outcome(tmp_path / "out") == uninterrupted("own maps")


def test_sigterm_before_any_entry_leaves_nothing(tmp_path):
    spec = small_job(tmp_path / "out")
    spec["calibration"]["samples"] = 64  # with one group the first entry comes at the end
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    end_with_sigterm(running)
    assert not list(tmp_path.glob("out*"))


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 64) as mounted:
        if mounted is None:
            pytest.skip("a tmpfs cannot be mounted")
        yield mounted


def test_a_full_disk_is_named_and_with_room_the_job_goes_on(disk, uninterrupted, tmp_path):
    spec = small_job(disk / "out", ranks=2)
    running = harness.Running(in_many_groups(spec, tmp_path), tmp_path, threads=1)
    journal = interrupted.journal_of(spec)
    assert interrupted.wait_for_entries(running, journal, 4), running.log
    fill(disk / "others")
    code, _ = running.end(60)

    assert code == 1, running.log
    assert f"{disk}/out.partial/" in running.log
    assert "No space left on device" in running.log
    assert [path.name for path in interrupted.partial_of(spec).iterdir()] == ["journal"]
    assert len(interrupted.entries(journal)) >= 4
    subprocess.run(["mount", "-o", "remount,size=128m", disk], check=True)
    done = harness.run(spec, tmp_path, threads=1)
    assert done.returncode == 0, done.stderr
    assert "resuming: " in done.stderr
    assert "damaged" not in done.stderr
    assert harness.outcome(disk / "out") == uninterrupted("own maps")
