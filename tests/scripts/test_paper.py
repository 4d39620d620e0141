"""Tests of the parts of scripts/reproduce_paper.py: the paper's figures, the order of methods, tables from results."""

import csv
import io
import json
import os
import statistics
import subprocess

import pytest
from conftest import ROOT
from paper import cost, inputs, order, page, published, sweeps, tables, tasks
from paper.programs import Failure
from paper.table import Column, Table, share

EXAMPLE = ROOT / "examples" / "docs-llama"


def config_of(model):
    return json.loads((ROOT / "bench" / "configs" / f"{model}.json").read_text())


LLAMA_8B = config_of("llama-3.1-8b")
MISTRAL_7B = {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32768}
ANOTHER = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2}
MODELS = published.published()["perplexity"]["models"]


def of_paper(model, sparsity):
    return {method: published.perplexity_of(model, sparsity, method) for method in sweeps.METHODS}


def test_every_average_of_the_paper_but_one_is_the_mean_of_its_five():
    wrong = []
    for model in MODELS:
        settings = [(None, "dense"), *((s, method) for s in (0.2, 0.3) for method in sweeps.OF_TASKS)]
        for setting in settings:
            of = dict(published.accuracies_of(model, *setting))
            average = of.pop("average")
            if statistics.mean(of.values()) != pytest.approx(average, abs=0.011):
                wrong.append((model, *setting))
    assert wrong == [("llama-3.1-70b", 0.2, "pca_dotresize")]


def test_a_model_of_the_paper_is_known_by_its_config():
    assert published.models_beside(LLAMA_8B) == ["llama-3.1-8b"]
    assert published.models_beside(config_of("llama-3.1-70b")) == ["llama-3.1-70b"]
    assert published.models_beside(MISTRAL_7B) == ["mistral-7b"]
    assert published.models_beside(config_of("mistral-nemo-12b")) == ["mistral-12b"]
    assert published.models_beside(config_of("phi-4")) == ["phi-4-14b"]
    assert published.models_beside(ANOTHER) == MODELS


@pytest.mark.parametrize(
    "config",
    [
        LLAMA_8B | {"vocab_size": 32000, "max_position_embeddings": 4096},  # Llama-2-7B
        LLAMA_8B | {"max_position_embeddings": 8192},  # Llama-3-8B
        MISTRAL_7B | {"vocab_size": 32000},  # v0.1
        config_of("phi-4") | {"vocab_size": 32064},  # Phi-3-medium
    ],
)
def test_a_model_of_the_same_shape_is_none_of_the_paper(config):
    assert published.models_beside(config) == MODELS


def test_sizes_that_the_paper_has_not_have_no_figure():
    assert published.perplexity_of("phi-4-14b", 0.3, "dotresize") == 29.79
    assert published.perplexity_of("phi-4-14b", 0.1, "dotresize") is None
    assert published.accuracies_of("phi-4-14b", 0.2, "magnitude") is None


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sparsity", [0.2, 0.3])
def test_the_paper_is_in_its_own_order(model, sparsity):
    pairs = list(order.compare_pairs(sparsity, of_paper(model, sparsity), [model]))
    assert len(pairs) == 3 and all(pair.as_in_paper for pair in pairs)


def test_another_order_is_told():
    found = {"magnitude": 40.0, "dotresize": 50.0, "slicegpt": 20.0, "pca_dotresize": 20.3}
    merging, slicing, pca = order.compare_pairs(0.2, found, MODELS)
    assert not merging.as_in_paper and slicing.as_in_paper
    assert merging.sentence().startswith("dotresize (50.00) is above magnitude (40.00). **Not so in the paper.**")
    assert pca.as_in_paper and pca.by_relation[1] == ["mistral-7b"]
    assert slicing.sentence().endswith("below it with all of its models.")
    # The paper says of this model that pca_dotresize is better.
    assert not list(order.compare_pairs(0.2, found, ["llama-3.1-8b"]))[2].as_in_paper
    assert list(order.compare_pairs(0.1, found, MODELS)) == []
    assert order.ranking(found) == "slicegpt < pca_dotresize < magnitude < dotresize"


def test_within_a_tenth_is_even():
    assert [order.relation(7.0, other) for other in (6.85, 6.95, 7.05, 7.15)] == [1, 0, 0, -1]


def energy_row(method, lam, energy, perplexity):
    return order.EnergyRow(0.2, method, lam, energy, perplexity)


def test_the_reason_has_what_was_measured():
    rows = [energy_row("slicegpt", None, 0.99, 30.0), energy_row("pca_dotresize", 0.1, 0.98, 31.0)]
    rows.append(energy_row("pca_dotresize", 1, 0.97, 32.0))
    said = order.reason(rows)
    assert "99.00 %" in said and "97.00 to 98.00 %" in said and "-1.00" in said
    assert said.endswith("31.00: none brings it more than 0.1 below slicegpt.")
    rows.append(energy_row("pca_dotresize", 10, 0.96, 29.0))
    assert order.reason(rows).endswith("29.00: below slicegpt.")
    assert order.reason(rows[1:]) is None


class StoredSweep:
    """Writes a sweep's results.json and reports as files."""

    def __init__(self, folder):
        self.folder = folder
        self.variants = []

    def add(self, perplexity, state="done", retained=0.98, model=None, **values):
        row = {"values": {f"method.{key}": value for key, value in values.items()}, "state": state}
        if state == "done":
            identity = str(len(self.variants))
            row |= {"id": identity, "perplexity": perplexity, "width": 200, "bytes_fraction": 0.84}
            self._write_report(identity, retained)
        else:
            row["reason"] = "method.size: too small"
        self.variants.append(row | ({"model": str(model)} if model else {}))

    def _write_report(self, identity, retained):
        report = self.folder / "variants" / identity / "dotresize" / "report.json"
        report.parent.mkdir(parents=True)
        names = ("embed", "layers.0.attention", "layers.0.mlp", "layers.1.attention", "layers.1.mlp")
        junctions = [
            {"name": name, "mapped": name != names[-1], "effective_rank": 100 + i, "retained_energy": retained}
            for i, name in enumerate(names)
        ]
        report.write_text(json.dumps({"junctions": junctions}))

    def results(self):
        return sweeps.Results({"dense": {"perplexity": 20.0}, "directory": str(self.folder), "variants": self.variants})


@pytest.fixture
def stored(tmp_path):
    """Stores results of three of the four methods: magnitude has failed."""
    sweep = StoredSweep(tmp_path)
    sweep.add(None, state="failed", name="magnitude", sparsity="0.2", **{"lambda": None})
    sweep.add(40.0, name="slicegpt", sparsity="0.2", **{"lambda": None})
    for method, values in (("dotresize", (60.0, 50.0)), ("pca_dotresize", (44.0, 45.0))):
        for value, perplexity in zip(("0.1", "1"), values, strict=True):
            sweep.add(perplexity, name=method, sparsity="0.2", retained=0.97, **{"lambda": value})
    return sweep.results()


def plan_for(folder, **changes):
    options = {"sparsities": (0.2,), "lambdas": (0.1, 1.0), "sample_counts": (8,), "changes": (), "hardware": None}
    return sweeps.Plan(output=folder, latency=False, tasks=False, **{**options, **changes})


@pytest.fixture
def inputs_of(tmp_path):
    def make(config, tokens=1000):
        text = tmp_path / "calibration.txt"
        return inputs.Inputs(tmp_path, config, text, tmp_path / "evaluation.txt", text, 64, tokens)

    return make


def test_the_perplexity_table_has_the_paper_beside_it(stored, inputs_of, tmp_path):
    table = tables.perplexity_table(inputs_of(LLAMA_8B), plan_for(tmp_path), stored)
    assert table.columns[-1].name == "paper: Llama-3.1-8B"
    rows = {row[1]: row for row in table.rows}
    assert rows["dense"][4:] == [20.0, 1.0, "6.24 (1.00)"]
    assert rows["slicegpt"][2:] == [200, 0.84, 40.0, 2.0, "11.25 (1.80)"]
    assert rows["pca_dotresize"][4] == 44.0 and rows["dotresize"][4] == 60.0
    assert rows["magnitude"][2:] == [None, None, None, None, "29.33 (4.70)"]
    assert any("15 samples" in note for note in table.notes)
    assert list(stored.failures()) == ["magnitude 0.2: method.size: too small"]


def test_the_ablations_are_tables(stored, inputs_of, tmp_path):
    plan, of = plan_for(tmp_path), inputs_of(ANOTHER)
    assert tables.lambda_table(plan, stored).rows == [
        ["20 %", "dotresize", 60.0, 50.0, pytest.approx(0.2)],
        ["20 %", "pca_dotresize", 44.0, 45.0, pytest.approx(1 / 44)],
    ]
    assert [row[1:4] for row in tables.energy_table(plan, stored).rows[-3:]] == [
        ["slicegpt", None, 0.98], ["pca_dotresize", 0.1, 0.97], ["pca_dotresize", 1.0, 0.97]
    ]
    report = stored.report(stored.row(name="slicegpt"))
    assert tables.effective_rank_table(of, report).rows == [[0, 101, 102], [1, 103, None]]


def test_pairs_that_were_compared_have_a_verdict(stored, inputs_of, tmp_path):
    verdict, [(head, [first, *_])] = page.order_section(inputs_of(LLAMA_8B), plan_for(tmp_path), stored)
    assert verdict == "Not all methods are in the order of the paper."
    assert head == "20 %: slicegpt < pca_dotresize < dotresize"
    assert first.startswith("slicegpt (40.00) is below dotresize (60.00). In the paper")
    verdict, _ = page.order_section(inputs_of(ANOTHER), plan_for(tmp_path), stored)
    assert verdict.startswith("Each pair of methods that could be compared is in the order")


def test_without_a_pair_the_page_says_why(inputs_of, tmp_path):
    sweep = StoredSweep(tmp_path)
    sweep.add(40.0, name="slicegpt", sparsity="0.2", **{"lambda": None})
    plan = plan_for(tmp_path, sparsities=(0.1, 0.2))
    verdict, sections = page.order_section(inputs_of(ANOTHER), plan, sweep.results())
    assert verdict == "No pair of methods could be compared with the paper."
    assert sections == [
        ("10 %: no method is done", ["The paper has no such size."]),
        ("20 %: slicegpt", ["Too few methods are done to compare."]),
    ]
    assert tables.lambda_table(plan, sweep.results()).notes == [published.statement_on("lambda")]


def test_tasks_need_as_many_samples_as_the_other_jobs_have(tmp_path):
    (tmp_path / "calibration.txt").write_text("a word and another " * 200)
    (tmp_path / "evaluation.txt").write_text("a word and another " * 20)
    assert inputs.read_inputs(EXAMPLE, tmp_path, 32, tasks=True).samples > 2  # tasks take calibration.txt
    (tmp_path / "tasks.txt").write_text("a word and another " * 20)
    assert inputs.read_inputs(EXAMPLE, tmp_path, 32).tasks_calibration.name == "tasks.txt"
    with pytest.raises(Failure, match=r"tasks\.txt: \d+ tokens, fewer than \d+ samples of 32"):
        inputs.read_inputs(EXAMPLE, tmp_path, 32, tasks=True)


def test_samples_that_the_text_has_not_are_named(inputs_of, tmp_path):
    there, left_out = inputs.split_samples((8, 15, 16, 1024), inputs_of(ANOTHER).windows)
    assert (there, left_out) == ([8, 15], [16, 1024])
    row = {"values": {"calibration.samples": "8"}, "state": "done", "perplexity": 9.0}
    results = sweeps.Results({"directory": str(tmp_path), "variants": [row]})
    table = tables.samples_table(inputs_of(ANOTHER), plan_for(tmp_path), results, left_out)
    assert table.rows == [[8, 512, 9.0, None]]
    assert "Left out: 16, 1024 samples. calibration.txt has 1,000 tokens, 15 samples of 64." in table.notes


def test_gpus_are_counted_in_whole_blocks():
    reserved = cost.RUNTIME_BYTES
    assert cost.gpus_to_run([3, 5, 5, 3], reserved + 16) == 1
    assert cost.gpus_to_run([3, 5, 5, 3], reserved + 15) == 2
    assert cost.gpus_to_run([3, 5, 5, 3], reserved + 8) == 2
    assert cost.gpus_to_run([3, 5, 5, 3], reserved + 7) == 4
    assert cost.gpus_to_run([3, 5, 5, 3], reserved + 4) is None


def test_the_blocks_of_a_model_are_all_of_its_numbers(tmp_path):
    for name in ("model.safetensors", "consolidated.safetensors"):  # the latter is another copy, as in Mistral's repositories
        (tmp_path / name).symlink_to(EXAMPLE / "model.safetensors")
    for model in (EXAMPLE, tmp_path):
        blocks = cost.block_bytes(model)
        assert len(blocks) == 8 and sum(blocks) == 2 * 6_622_464
    (tmp_path / "model.safetensors").rename(tmp_path / "shard.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": "shard.safetensors"}}))
    assert sum(cost.block_bytes(tmp_path)) == 2 * 6_622_464


def test_accuracies_are_percents_and_average_over_all_five():
    five = tasks.five_tasks()
    scores = {task: {"acc,none": 0.5, "acc_norm,none": 0.6} for task in five} | {"winogrande": {"acc,none": 0.7}}
    found = tasks.accuracies_in({"results": scores}, five)
    assert found["piqa"] == 60.0 and found["winogrande"] == 70.0 and found["average"] == pytest.approx(62.0)
    assert tasks.accuracies_in({"results": scores}, ["piqa"]) == {"piqa": 60.0}


def test_a_model_is_scored_once(tmp_path, monkeypatch):
    calls = []

    def harness(command, **_):
        calls.append(command[1:4])
        results = tmp_path / "scores" / "model" / f"results_2026-01-0{len(calls)}T00-00-00.000001.json"
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(json.dumps({"results": {task: {"acc,none": 0.5} for task in command[3].split(",")}}))
        os.utime(results, (100 - len(calls),) * 2)  # clocks are set back
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(tasks.subprocess, "run", harness)
    for names in (["piqa"], ["piqa"], ["piqa", "arc_easy"]):
        assert tasks.run_harness("model", names, tmp_path / "scores") == dict.fromkeys(names, 50.0)
    assert calls == [["model", "--tasks", "piqa"], ["model", "--tasks", "piqa,arc_easy"]]


def test_a_table_shows_and_keeps_its_values():
    table = Table("name", "Title", [Column("method"), share("share", "{:.0f} %")], [["a, b", 0.123], ["c", None]], ["Note."])
    assert list(csv.reader(io.StringIO(table.csv()))) == [["method", "share"], ["a, b", "0.123"], ["c", ""]]
    assert "| a, b     |    12 % |" in table.markdown() and table.markdown().endswith("\nNote.\n")
    assert "12 %" in table.text() and "–" in table.text()
