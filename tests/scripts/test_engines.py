"""Tests of scripts/engines.sh: its arguments, and the output of its comparison for fake engines."""

import subprocess

import pytest
from conftest import ROOT
from engines import comparison


@pytest.mark.parametrize(
    "arguments", [[], ["tokens"], ["--engine"], ["--engine", "vllm", "tokens"], ["--engine", "other", "tokens", "model"]]
)
def test_wrong_arguments_install_nothing(arguments):
    done = subprocess.run([ROOT / "scripts" / "engines.sh", *arguments], capture_output=True, text=True)
    assert done.returncode == 64
    assert done.stdout == "" and done.stderr.startswith("usage: scripts/engines.sh")


def play(monkeypatch, score, models):
    monkeypatch.setattr(comparison, "in_transformers", lambda model_dir, tokens: 100.0)
    return comparison.compare("engine", score, "tokens", models)


@pytest.mark.parametrize("found, code, verdict", [(100.09, 0, "the same"), (100.11, 1, "DIFFERENT"), (99.89, 1, "DIFFERENT")])
def test_a_thousandth_is_the_same(monkeypatch, capsys, found, code, verdict):
    assert play(monkeypatch, lambda model_dir, tokens: found, ["model"]) == code
    assert capsys.readouterr().out == f"model: engine {found:.4f}, transformers 100.0000: {verdict}\n"


def test_the_others_are_scored_if_one_is_refused(monkeypatch, capsys):
    def score(model_dir, tokens):
        if model_dir == "first":
            raise comparison.Refused("heads:\n  24,    32")
        return 100.0

    assert play(monkeypatch, score, ["first", "second"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "first: engine refuses it: heads: 24, 32"
    assert second.endswith("the same")


def test_a_model_that_is_not_there_ends_it_as_load_and_score_does(tmp_path):
    with pytest.raises(SystemExit) as end:
        comparison.in_transformers(tmp_path, tmp_path / "tokens.safetensors")
    assert end.value.code == 65
