"""Tests that scripts/lm_eval.sh runs EleutherAI's harness on the worker's output, without the network."""

import json
import os
import random
import shutil
import subprocess
from pydoc_data.topics import topics

import pytest
import torch
from running import DATA, EXAMPLE, ROOT, run_worker
from transformers import AutoModelForCausalLM, AutoTokenizer

SCRIPT = ROOT / "scripts" / "lm_eval.sh"
QUESTIONS, CHOICES = 30, 4


def make_questions():
    """Makes questions with four snippets each, one of which continues the words of a page."""
    generator = random.Random(1)
    words = " ".join(topics["compound"].split() + topics["execmodel"].split()).split()
    starts = generator.sample(range(len(words) - 40), QUESTIONS)
    for start in starts:
        others = [generator.randrange(len(words) - 4) for _ in range(CHOICES - 1)]
        snippets = [" ".join(words[at : at + 4]) for at in (start + 20, *others)]
        answer = generator.randrange(CHOICES)
        snippets[0], snippets[answer] = snippets[answer], snippets[0]
        yield {
            "query": " ".join(words[start : start + 20]),
            "choices": snippets,
            "answer": answer,
        }


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """Returns a folder for --include_path with the task "next_words", and its questions."""
    folder = tmp_path_factory.mktemp("task")
    questions = list(make_questions())
    data = folder / "questions.jsonl"
    data.write_text("".join(json.dumps(question) + "\n" for question in questions))
    settings = {
        "task": "next_words",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "output_type": "multiple_choice",
        "test_split": "test",
        "doc_to_text": "{{query}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    (folder / "next_words.yaml").write_text(json.dumps(settings))  # JSON is YAML
    return folder, questions


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    job = {
        "name": "narrow",
        "model": {"path": str(EXAMPLE)},
        "output": {"path": str(folder / "narrow")},
        "method": {"name": "slicegpt", "sparsity": 0.2},
        "calibration": {"tokens": str(DATA / "calibration.safetensors"), "samples": 8},
        "resources": {"ranks": 2},
    }
    return {"dense": EXAMPLE, "compressed": run_worker(folder, job, ranks=2)}


@pytest.fixture(scope="module")
def harness(tmp_path_factory, models, task):
    """Runs the harness on both models side by side. Returns its results and samples."""
    folder = tmp_path_factory.mktemp("scores")
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    options = ["--include_path", task[0], "--tasks", "next_words", "--batch_size", "1"]
    running = {
        name: subprocess.Popen(
            [SCRIPT, model, *options, "--device", "cpu", "--log_samples", "--output_path", folder / name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for name, model in models.items()
    }
    results = {}
    for name, process in running.items():
        printed, _ = process.communicate(timeout=280)
        assert process.returncode == 0, printed[-3000:]
        assert "next_words" in printed and "acc_norm" in printed
        (scores,) = (folder / name).rglob("results_*.json")
        (samples,) = (folder / name).rglob("samples_*.jsonl")
        results[name] = (
            json.loads(scores.read_text())["results"]["next_words"],
            [json.loads(line) for line in samples.read_text().splitlines()],
        )
    return results


@torch.no_grad()
def log_likelihood(model, tokenizer, query, choice):
    """Returns the log-likelihood of the choice's tokens after the query's."""
    given = tokenizer(query, add_special_tokens=False)["input_ids"]
    ids = torch.tensor([tokenizer(f"{query} {choice}", add_special_tokens=False)["input_ids"]])
    likelihood = model(ids).logits[0, :-1].float().log_softmax(-1)
    of_tokens = likelihood.gather(1, ids[0, 1:, None])[:, 0]
    return of_tokens[len(given) - 1 :].sum().item()


def accuracy(likelihoods, questions, divisor):
    right = 0
    for of_choices, question in zip(likelihoods, questions, strict=True):
        scores = [x / divisor(c) for x, c in zip(of_choices, question["choices"], strict=True)]
        right += scores.index(max(scores)) == question["answer"]
    return right / len(questions)


@pytest.mark.parametrize("name", ["dense", "compressed"])
def test_the_harness_scores_as_transformers_does(models, harness, task, name):
    code = {"trust_remote_code": True} if name == "compressed" else {}
    model = AutoModelForCausalLM.from_pretrained(models[name], torch_dtype="auto", **code).eval()
    tokenizer = AutoTokenizer.from_pretrained(models[name], **code)
    questions = task[1]
    expected = [
        [log_likelihood(model, tokenizer, question["query"], choice) for choice in question["choices"]]
        for question in questions
    ]
    results, samples = harness[name]
    found = [None] * len(questions)
    for sample in samples:
        found[sample["doc_id"]] = [float(response[0][0]) for response in sample["resps"]]
    for of_harness, of_transformers in zip(found, expected, strict=True):
        assert of_harness == pytest.approx(of_transformers, rel=0.01)
    # Computed from the harness's own numbers: in 16 bits two choices can be so near that rounding decides.
    assert results["acc,none"] == pytest.approx(accuracy(found, questions, lambda c: 1))
    assert results["acc_norm,none"] == pytest.approx(accuracy(found, questions, len))
    assert 1 / CHOICES < results["acc,none"] < 1


def test_the_two_models_do_not_score_alike(harness):
    first_responses = [[s["resps"] for s in samples] for _, samples in harness.values()]
    assert first_responses[0] != first_responses[1]


def test_code_that_is_not_dotresizes_is_refused(models, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(models["compressed"], model)
    with (model / "modeling_dotresize.py").open("a") as file:
        file.write("\n")
    result = subprocess.run([SCRIPT, model], capture_output=True, text=True, timeout=60)
    assert result.returncode == 65
    assert "untrusted code" in result.stderr and "modeling_dotresize.py" in result.stderr


@pytest.mark.parametrize(("arguments", "code"), [((), 64), (("--tasks", "x"), 64), (("a,b",), 65)])
def test_wrong_usage_is_refused(arguments, code):
    assert subprocess.run([SCRIPT, *arguments], capture_output=True, timeout=60).returncode == code
