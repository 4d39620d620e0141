"""The paper's five zero-shot tasks by lm-evaluation-harness (scripts/lm_eval.sh)."""

import json
import subprocess

from .programs import ROOT, Failure
from .published import published

AVERAGE = "average"


def five_tasks():
    return [task for task in published()["tasks"]["tasks"] if task != AVERAGE]


def tasks_with_data(tasks):
    """Tasks whose data the harness has or can download; for each of the others the reason why not."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager()
    there, missing = [], {}
    for task in tasks:
        try:
            manager.load(task)
            there.append(task)
        except Exception as error:  # the data sets' library, the network and the Hub have many
            missing[task] = (str(error).splitlines() or [type(error).__name__])[0]
    return there, missing


def accuracies_in(results, tasks):
    """Accuracies in %, by task, and their average if all five are there. They are acc_norm where the harness has it, as in
    SliceGPT's paper, else acc."""
    found = {}
    for task in tasks:
        scores = results["results"][task]
        found[task] = 100 * scores.get("acc_norm,none", scores["acc,none"])
    if len(found) == len(five_tasks()):
        found[AVERAGE] = sum(found.values()) / len(found)
    return found


def kept_results(folder):
    """The newest that the harness has written there, by the date in its name; None if there are none."""
    files = sorted(folder.rglob("results_*.json"), key=lambda file: file.name)
    return json.loads(files[-1].read_text()) if files else None


def run_harness(model, tasks, folder):
    """The accuracies of a model. They are measured once: `folder` keeps what the harness writes."""
    results = kept_results(folder)
    if not results or not set(tasks) <= results["results"].keys():
        command = [ROOT / "scripts" / "lm_eval.sh", model, "--tasks", ",".join(tasks), "--output_path", folder]
        code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        if code:
            raise Failure(f"scripts/lm_eval.sh {model} has ended with {code}", 1)
        results = kept_results(folder)
    return accuracies_in(results, tasks)
