"""Tests of the report pages in a browser: what their script makes of a report, and what stands there without it."""

import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(SOURCE / "tests"))
from chromium import Chromium, Tab  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("DOTRESIZE_BIN", SOURCE / "build" / "bin")) / "dotresize"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{TITLE}}\u202e"
SHOWN = HOSTILE.replace("\u202e", "?")
MAX_PAGE_BYTES = 5_000_000

# Reads a page as data. Plots are read from what Chart.js was given.
READ = """(() => {
  const text = (node) => node?.textContent;
  const csv = (node) => decodeURIComponent(node.querySelector("a").href.split(",").slice(1).join(","));
  const scaleOf = ({ type, title, beginAtZero, stacked }) => ({ type, title: title.text, beginAtZero, stacked });
  const pixels = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({ length: data.length / 4 }, (_, i) => Array.from(data.slice(4 * i, 4 * i + 4)));
  };
  return {
    kind: text(document.querySelector(".kind")), title: text(document.querySelector("h1")),
    summary: text(document.querySelector(".summary")), error: text(document.querySelector(".error p")),
    warnings: Array.from(document.querySelectorAll(".warnings li"), text),
    tables: Object.fromEntries(Array.from(document.querySelectorAll("table"),
      (table) => [text(table.caption), Array.from(table.rows, (row) => Array.from(row.cells, text))])),
    figures: Object.fromEntries(Array.from(document.querySelectorAll("figure"), (figure) => {
      const { config: { type, options }, data } = Chart.getChart(figure.querySelector("canvas"));
      return [figure.id, {
        title: text(figure.querySelector("h2")), words: text(figure.querySelector("figcaption").firstChild).trim(),
        label: figure.querySelector("canvas").getAttribute("aria-label"), csv: csv(figure), type,
        file: figure.querySelector("a").download,
        x: scaleOf(options.scales.x), y: scaleOf(options.scales.y), categories: data.labels,
        legend: options.plugins.legend.display, colours: data.datasets.map((set) => set.borderColor),
        series: data.datasets.map(({ label, data, showLine }) => ({ label, data, showLine }))}];
    })),
    plans: Array.from(document.querySelectorAll(".plan"), (plan) => ({
      name: text(plan.querySelector("select").selectedOptions[0]), offered: Array.from(plan.querySelectorAll("option"), text),
      words: text(plan.querySelector(".plan-text span")), csv: csv(plan),
      label: plan.querySelector(".picture").getAttribute("aria-label"),
      size: [plan.querySelector(".picture").width, plan.querySelector(".picture").height],
      pixels: pixels(plan.querySelector(".picture"))})),
    about_plans: text(document.querySelector(".plans > p")), ticks: Array.from(document.querySelectorAll(".ticks span"), text),
    texts: Object.fromEntries(Array.from(document.querySelectorAll("pre"), (pre) => [text(pre.previousSibling), text(pre)])),
  };
})()"""


def junction(name, width=200, rank=227):
    """A mapped junction of a small model, with a picture of 3 rows and 2 columns."""
    return {"name": name, "width": width, "mapped": True, "effective_rank": rank, "retained_energy": 0.97,
            "spectrum": {"ranks": [1, 16, 256], "energy": [0.5, 0.875, 1.0]},
            "sinkhorn": {"iterations": 42, "violation": 1e-9, "converged": True},
            "transport": {"block": 100, "rows": 3, "columns": 2, "largest": 0.25, "stays": 0.75, "kept_targets": 1.5,
                          "merged_targets": 1.25, "levels": base64.b64encode(bytes([255, 223, 0, 255, 223, 191])).decode()}}


def example_report(**changes):
    """report.json of a job, with nearly all that it may have."""
    return {
        "schema_version": 1, "name": "small", "device": "cpu",
        "model": {"path": "examples/small", "dtype": "float32", "other_dtypes": {"lm_head.weight": "bfloat16"}},
        "method": {"name": "pca_dotresize", "width": 200, "hidden_size": 256, "lambda": 0.1, "metric": "activation"},
        "calibration": {"text": ["one.txt"], "token_count": 32768, "seconds": 12.3456}, "compute_dtype": "float32",
        "junctions": [junction("embed"), junction("layers.0.attention", rank=184)],
        "shortcuts": [{"name": "layers.0.attention", "rank": 8, "exact_rank": 56, "parameters": 1600},
                      {"name": "layers.0.mlp", "exact_rank": 56, "parameters": 40000}],
        "mlps": [{"name": "layers.0.mlp", "width": 640, "intermediate_size": 768, "predicted_rise": 0.001,
                  "unseen_experts": 0}],
        "heal": {"update_share": 0.75, "held_out_kl": [0.5, 0.375, 0.25, 0.125], "layers": [
            {"name": "layers.0", "folded_error": 0.25, "healed_error": 0.125, "epochs": 3},
            {"name": "layers.1", "folded_error": 0.5, "healed_error": 0.5, "epochs": 0}]},
        "dense": {"parameters": 1000, "bytes": 2000, "perplexity": 26.03},
        "compressed": {"parameters": 800, "bytes": 1600, "perplexity": 29.05, "kl": 0.125, "agreement": 0.75},
        "ranks": [{"rank": 0, "host": "host", "first_sublayer": 0, "end_sublayer": 6, "peak_memory_bytes": 1 << 30,
                   "seconds": {"forward": 1.5, "sinkhorn": 0.5}},
                  {"rank": 1, "host": "host", "first_sublayer": 6, "end_sublayer": 12, "peak_memory_bytes": 1 << 30,
                   "seconds": {"forward": 2.5}}],
        "wall_time_s": 12.0, "fingerprints": {"config.json": "ab12"}, "warnings": []} | changes


def variant(method, lambda_, size, fraction, perplexity, pareto):
    return {"values": {"method.name": method, "method.lambda": lambda_, "method.size": size}, "state": "done",
            "width": 200, "bytes": int(fraction * 1000), "bytes_fraction": fraction, "perplexity": perplexity,
            "pareto": pareto, "best": pareto}


def example_sweep(**changes):
    """results.json of a sweep with four finished jobs, the first and the last on the Pareto front, and a refused one."""
    return {
        "name": "sizes", "directory": "/out/sweep", "combinations": 8,
        "axes": ["method.name", "method.lambda", "method.size"], "dense": {"bytes": 1000, "perplexity": 50.0},
        "variants": [variant("slicegpt", None, "0.9", 0.9, 52.0, True),
                     variant("pca_dotresize", "1", "0.9", 0.9, 53.0, False),
                     variant("pca_dotresize", "0.01", "0.9", 0.9, 54.0, False),
                     variant("pca_dotresize", "0.01", "0.8", 0.8, 60.0, True),
                     {"values": {"method.name": "slicegpt", "method.lambda": None, "method.size": "0.01"},
                      "state": "refused", "reason": "method.size: too small"}]} | changes


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    running = Chromium(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


class Pages:
    """Writes reports into directories, and their pages beside them."""

    def __init__(self, folder, browser):
        self.folder = folder
        self.browser = browser

    def report(self, directory, exit_code=0):
        """Returns the page's file, or the error of a refused report."""
        given = directory if isinstance(directory, list) else [directory]
        file = self.folder / "page.html"
        done = subprocess.run([PROGRAM, "report", *given, "--html", file], capture_output=True, text=True, timeout=60)
        assert done.returncode == exit_code, done.stderr
        return file if exit_code == 0 else done.stderr

    def model(self, report, name="model"):
        (self.folder / name / "dotresize").mkdir(parents=True, exist_ok=True)
        (self.folder / name / "dotresize/report.json").write_text(json.dumps(report))
        return self.folder / name

    def sweep(self, results):
        (self.folder / "sweep/variants").mkdir(parents=True, exist_ok=True)
        (self.folder / "sweep/results.json").write_text(json.dumps(results))
        return self.folder / "sweep"

    def failed(self, name="lost", error="no memory", log="begun\n"):
        directory = self.folder / "failed"
        directory.mkdir(exist_ok=True)
        (directory / "job.json").write_text(json.dumps({
            "name": name, "model": {"path": "m"}, "output": {"path": "o"}, "method": {"name": "slicegpt", "size": 0.8},
            "calibration": {"text": ["t"]}}))
        (directory / "log").write_text(f"{log}dotresize-worker: error: rank 1 on node7 in calibrate: {error}\n")
        return directory

    def open(self, directory, **options):
        return Tab(self.browser, self.report(directory).as_uri(), **options)

    def read(self, directory):
        page = self.open(directory)
        assert page.complaints() == []
        return page.evaluate(READ)


@pytest.fixture
def pages(tmp_path, browser):
    return Pages(tmp_path, browser)


def directory_of(kind, pages, name="small"):
    """One of the four kinds of pages."""
    if kind == "job":
        return pages.model(example_report(name=name))
    if kind == "comparison":
        return [pages.model(example_report(name=name), folder) for folder in ("one", "two")]
    return pages.sweep(example_sweep(name=name)) if kind == "sweep" else pages.failed(name)


KINDS = ["job", "sweep", "comparison", "failure"]


@pytest.mark.parametrize("kind", KINDS)
def test_page_allows_its_own_content_and_loads_nothing(pages, kind):
    file = pages.report(directory_of(kind, pages))
    html = file.read_text()
    policy = re.search('Content-Security-Policy" content="(.*?)"', html)[1]

    def hashes(pattern):
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'"
                        for each in re.findall(pattern, html, re.DOTALL))

    assert policy == (f"default-src 'none'; script-src {hashes('<script>(.*?)</script>')}; "
                      f"style-src {hashes('<style>(.*?)</style>')}; img-src data:; base-uri 'none'; form-action 'none'")
    page = Tab(pages.browser, file.as_uri())
    assert page.loaded() == [file.as_uri()] and page.complaints() == []


@pytest.mark.parametrize(("kind", "figures"), [
    ("job", ["26.030", "29.050", "0.1250", "75.0 %", "perplexity 29.050 instead of 26.030, in 12 s."]),
    ("sweep", ["Least perplexity: 52.000 at 90.0 %", "method.lambda", "60.000", "+20.0 %"]),
    ("comparison", ["200 of 256", "80.0 %", "29.050", "+11.6 %"]), ("failure", ["no memory", "Directory"])])
def test_without_script_the_key_figures_are_there(pages, kind, figures):
    page = pages.open(directory_of(kind, pages), script=False)
    words = page.evaluate("document.body.innerText")
    assert all(figure in words for figure in [*figures, "The plots and the other tables need scripts"]), words
    assert page.evaluate("document.querySelectorAll('canvas').length") == 0


def test_key_figures_stay_where_the_script_fails(pages):
    file = pages.report(directory_of("job", pages))
    file.write_text(re.sub('id="data">.*?</script>', 'id="data">{"kind": "job"}</script>', file.read_text()))
    page = Tab(pages.browser, file.as_uri())
    assert len(page.complaints()) == 1 and "29.050" in page.evaluate("document.body.innerText")


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("kind", KINDS)
def test_page_fits_its_window(pages, kind, width):
    page = pages.open(directory_of(kind, pages), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_colours_are_those_of_the_chosen_scheme(pages):
    page = pages.open(directory_of("job", pages), dark=True)
    assert page.evaluate(READ)["figures"]["memory"]["colours"] == ["#6cb2ff"]
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    assert page.evaluate(READ)["figures"]["memory"]["colours"] == ["#0b5cad"]


def test_foreign_texts_are_never_markup(pages):
    report = example_report(name=HOSTILE, warnings=[HOSTILE], fingerprints={HOSTILE: HOSTILE})
    for entries in ("junctions", "shortcuts", "mlps"):
        report[entries][0]["name"] = HOSTILE
    report["ranks"][0] |= {"host": HOSTILE, "seconds": {HOSTILE: 1.0, "__proto__": 1.0, "constructor": 1.0}}
    report["method"]["name"] = report["model"]["path"] = HOSTILE
    sweep = example_sweep(name=HOSTILE, directory=HOSTILE)
    sweep["variants"][0]["values"]["method.name"] = sweep["variants"][2]["values"]["method.size"] = HOSTILE
    sweep["variants"][4]["reason"] = HOSTILE
    for directory in (pages.model(report), pages.sweep(sweep), [pages.model(report, "one"), pages.model(report, "two")],
                      pages.failed(SHOWN, HOSTILE, f"{HOSTILE}\x1b[31m\n")):
        for script in (True, False):
            page = pages.open(directory, script=script)
            assert page.complaints() == []
            assert page.evaluate("document.querySelectorAll('img').length") == 0
            assert page.evaluate("document.scripts.length") == 3
            words = page.evaluate("document.body.textContent")
            assert SHOWN in words and not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", words)


def test_numbers_are_written_as_the_program_writes_them(pages):
    table = json.loads((SOURCE / "tests/job/page/numbers.json").read_text())
    page = pages.open(directory_of("job", pages))
    written = page.evaluate(f"[{','.join(f'{name}(...{json.dumps(given)})' for name, given, _ in table)}]")
    assert [[*row[:2], text] for row, text in zip(table, written, strict=True)] == table


def test_job_has_a_figure_for_all_that_its_report_has(pages):
    shown = pages.read(pages.model(example_report()))
    figures = shown["figures"]
    assert list(figures) == [
        "effective-rank", "retained-energy", "spectrum", "shortcut-rank", "mlp-width", "mlp-predicted-rise",
        "healed-layers", "healing", "sinkhorn-iterations", "sinkhorn-violation", "transport-targets", "transport-stays",
        "time", "memory"]
    for name, figure in figures.items():
        assert figure["label"] == f"{figure['title']}. {figure['words']}" and figure["file"] == f"{name}.csv"
        assert figure["legend"] == (len(figure["series"]) > 1) and figure["x"]["title"] and figure["y"]["title"]
        assert figure["csv"].count("\n") > 1
    rank = figures["effective-rank"]
    assert rank["categories"] == ["embed", "layers.0.attention"] and rank["y"]["beginAtZero"]
    assert [(each["label"], each["data"]) for each in rank["series"]] == [
        ("effective rank (τ = 0.99)", [227, 184]), ("width", [200, 200]), ("hidden_size of the source", [256, 256])]
    assert rank["csv"] == ("junction,effective rank (τ = 0.99),width,hidden_size of the source\n"
                           "embed,227,200,256\nlayers.0.attention,184,200,256\n")
    assert rank["words"] == ("effective rank (τ = 0.99): 184 (layers.0.attention) to 227 (embed), mean 205.5; "
                             "width: 200; hidden_size of the source: 256.")
    spectrum = figures["spectrum"]
    assert (spectrum["type"], spectrum["x"]["type"]) == ("scatter", "logarithmic")
    assert spectrum["series"][0]["data"] == [{"x": 1, "y": 0.5}, {"x": 16, "y": 0.125}]
    assert spectrum["csv"] == ("rank,embed,layers.0.attention\n1,0.500000000,0.500000000\n"
                               "16,0.875000000,0.875000000\n256,1.000000000,1.000000000\n")
    assert figures["shortcut-rank"]["csv"] == "sublayer,rank,exact rank\nlayers.0.attention,8,56\nlayers.0.mlp,,56\n"
    assert figures["healing"]["categories"] == ["folded", "1", "2", "kept"]
    assert figures["transport-targets"]["csv"] == ("junction,kept channels,merged channels\nembed,1.5,1.25\n"
                                                   "layers.0.attention,1.5,1.25\n")
    assert figures["transport-stays"]["words"] == "stays (%): 75."
    assert (figures["time"]["type"], figures["time"]["y"]["stacked"]) == ("bar", True)
    assert figures["time"]["csv"] == "rank,forward,sinkhorn\n0,1.5,0.5\n1,2.5,\n"
    assert figures["time"]["words"] == "12 s of wall time; mean over the ranks: forward 2 s, sinkhorn 0.25 s."
    assert figures["memory"]["series"] == [{"label": "host", "data": [1, 1], "showLine": False}]


def test_job_has_tables_of_its_result_and_of_what_was_done(pages):
    shown = pages.read(pages.model(example_report(name="a name", warnings=["it is <worse>"])))
    assert (shown["kind"], shown["title"], shown["warnings"]) == ("Compression", "a name", ["it is <worse>"])
    assert shown["summary"] == ("pca_dotresize has made the model 200 of 256 channels wide: 80.0 % of its bytes, "
                                "perplexity 29.050 instead of 26.030, in 12 s.")
    assert list(shown["tables"]) == ["Result", "Terms", "What was done", "Ranks", "Fingerprints of the input"]
    assert shown["tables"]["Result"] == [
        ["", "dense", "compressed", "change"], ["perplexity", "26.030", "29.050", "+11.6 %"],
        ["KL", "", "0.1250", ""], ["agreement", "", "75.0 %", ""],
        ["parameters", "1,000", "800", "-20.0 %"], ["bytes", "1.95 KiB", "1.56 KiB", "-20.0 %"]]
    assert [row[0] for row in shown["tables"]["Terms"]] == ["term", "KL", "agreement", "bytes", "effective rank"]
    done = dict(shown["tables"]["What was done"])
    assert (done["λ"], done["Calibration text"], done["Calibration tokens"]) == ("0.1", "one.txt", "32,768")
    assert done["Dtype of the model"] == "float32, some bfloat16"
    assert done["Seconds of calibration"] == "12.35" and "Evaluation text" not in done
    assert shown["tables"]["Ranks"][1] == ["0", "host", "–", "0 to 6", "1.00 GiB"]
    assert shown["tables"]["Fingerprints of the input"][1] == ["config.json", "ab12"]


def test_predicted_damage_of_all_parts_stands_first_beside_what_was_measured(pages):
    report = example_report(attentions=[
        {"name": "layers.0.attention", "value_head_dim": 20, "head_dim": 32, "predicted_rise": 0.0625},
        {"name": "layers.1.attention", "value_head_dim": 32, "head_dim": 32, "predicted_rise": 0.0}])
    assert pages.read(pages.model(report))["figures"]["value-head-dim"]["csv"] == (
        "sublayer,left,of the source\nlayers.0.attention,20,32\nlayers.1.attention,32,32\n")
    report["method"]["metric"] = "fisher"
    report["junctions"][0]["predicted_rise"] = 0.5
    report["shortcuts"][0]["predicted_rise"], report["shortcuts"][1]["predicted_rise"] = 0.25, 0.125
    figures = pages.read(pages.model(report))["figures"]
    assert next(iter(figures)) == "predicted-damage" and "mlp-predicted-rise" not in figures
    damage = figures["predicted-damage"]
    assert damage["csv"] == ("layer,maps,MLPs,value heads,shortcuts\nembed,0.5,,,\nlayers.0,,0.001,0.0625,0.375\n"
                             "layers.1,,,0,\n")
    assert damage["words"] == "The bars sum to 0.9385 nats a token; the measured KL is 0.1250."


def test_phases_that_take_little_time_are_shown_as_one(pages):
    report = example_report()
    report["ranks"][0]["seconds"] |= {f"p{i}": 0.01 for i in range(20)}
    time = pages.read(pages.model(report))["figures"]["time"]
    assert len(time["series"]) == 8 and time["series"][-1]["label"] == "the other phases"
    assert time["series"][-1]["data"] == pytest.approx([0.15, 0.0]) and ",p19," in time["csv"]


def test_what_a_report_does_not_have_is_left_out(pages):
    report = example_report()
    for name in ("shortcuts", "mlps", "heal"):
        del report[name]
    for each in report["junctions"]:
        for name in ("spectrum", "sinkhorn", "transport"):
            del each[name]
    shown = pages.read(pages.model(report))
    assert list(shown["figures"]) == ["effective-rank", "retained-energy", "time", "memory"] and shown["plans"] == []
    stored = pages.read(SOURCE / "tests/data/output")
    assert "sinkhorn-iterations" in stored["figures"] and "spectrum" not in stored["figures"]


def test_three_plans_are_shown_and_all_can_be_chosen(pages):
    report = example_report()
    report["junctions"] += [junction(f"layers.{i}.mlp") for i in range(4)]
    del report["junctions"][2]["transport"]  # shares the map of the junction before
    report["junctions"][5]["transport"]["largest"] = 0.025
    page = pages.open(pages.model(report))
    shown = page.evaluate(READ)
    names = ["embed", "layers.0.attention to layers.0.mlp", "layers.1.mlp", "layers.2.mlp", "layers.3.mlp"]
    assert [plan["name"] for plan in shown["plans"]] == [names[i] for i in (0, 2, 4)]
    assert all(plan["offered"] == names for plan in shown["plans"])
    assert "Channels are principal components here" in shown["about_plans"]
    assert shown["ticks"] == ["2.5·10⁻⁴", "1.4·10⁻³", "7.9·10⁻³", "4.4·10⁻²", "2.5·10⁻¹"]
    first = shown["plans"][0]
    assert first["words"] == (
        "200 of 256 channels are kept: 3 rows and 2 columns of 100 channels each. 75.0 % of the mass of the kept "
        "channels stays on themselves. In the mean over the rows the largest cell has 93.9 % of a row's mass. The mass "
        "of a kept channel is spread over 1.5 channels (effective number), that of a merged one over 1.25.")
    assert first["label"] == f"Transport plan of embed. {first['words']}"
    assert first["csv"] == ("first channel,0,100\nkept 0,2.500e-01,2.500e-02\nkept 100,0.000e+00,2.500e-01\n"
                            "merged 0,2.500e-02,2.500e-03\n")
    pixels, fainter = first["pixels"], shown["plans"][2]["pixels"]
    assert first["size"] == [2, 4] and pixels[0] == pixels[3] == [0xfd, 0xe7, 0x25, 255]
    assert pixels[1] == pixels[6] not in (pixels[0], pixels[7])
    assert [pixels[i][3] for i in (2, 4, 5)] == [0] * 3, "no mass, the gap"
    assert fainter[0] == pixels[1] and fainter[1] == pixels[7], "equal masses have equal colours"

    page.evaluate("""(() => {
      const select = document.querySelector(".plan select");
      select.value = 4;
      select.dispatchEvent(new Event("change"));
    })()""")
    assert page.complaints() == []
    chosen = page.evaluate(READ)["plans"]
    assert chosen[0] == chosen[2]


@pytest.mark.parametrize("level", [0, 1, 255])
@pytest.mark.parametrize("largest", [2.0, 5e-324])
def test_plans_are_painted_whatever_a_report_may_have(pages, level, largest):
    report = example_report(junctions=[junction("embed")])
    report["junctions"][0]["transport"] |= {"largest": largest, "rows": 2,
                                            "levels": base64.b64encode(bytes([level] * 4)).decode()}
    (plan,) = pages.read(pages.model(report))["plans"]
    assert plan["size"] == [2, 2], "without merged channels there is no gap"


def test_sweep_has_its_front_and_a_curve_for_each_axis(pages):
    shown = pages.read(pages.sweep(example_sweep()))
    assert list(shown["figures"]) == ["perplexity-size", "perplexity-method-lambda"]
    sizes, lambdas = shown["figures"].values()
    assert sizes["words"].startswith("On the front, by size: 60.000 at 80.0 % (pca_dotresize, lambda 0.01, size 0.8); "
                                     "52.000 at 90.0 % (slicegpt, size 0.9); the dense model has 50.000.")
    assert [each["label"] for each in sizes["series"]] == ["pca_dotresize", "slicegpt", "Pareto front", "dense model"]
    assert [(point["x"], point["y"]) for point in sizes["series"][2]["data"]] == [(80, 60), (90, 52)]
    assert lambdas["x"]["type"] == "logarithmic" and len(lambdas["series"]) == 1, "size 0.8 has only one value"
    assert lambdas["csv"] == ("series,method.lambda,perplexity\n\"pca_dotresize, size 0.9\",0.01,54\n"
                              "\"pca_dotresize, size 0.9\",1,53\n")
    assert shown["tables"]["The sweep"][1:] == [["Directory", "/out/sweep"], ["Bytes of the dense model", "1000 B"],
                                                ["Its perplexity", "50.000"]]
    assert list(shown["tables"]) == [
        "Pareto front", "The sweep", "Jobs, by net size and perplexity", "Refused and failed"]
    jobs = shown["tables"]["Jobs, by net size and perplexity"]
    assert jobs[1] == ["pca_dotresize", "0.01", "0.8", "done", "200", "80.0 %", "60.000", "+20.0 %", "yes", "yes"]
    assert [row[6] for row in jobs[2:]] == ["52.000", "53.000", "54.000"] and "agreement" not in jobs[0]
    assert shown["tables"]["Refused and failed"][1] == ["slicegpt", "–", "0.01", "refused", "method.size: too small"]


def test_sweep_tells_apart_whatever_has_a_name(pages):
    sweep = example_sweep()
    sweep["axes"].append("method.metric")
    for i, each in enumerate(sweep["variants"]):
        each["values"]["method.metric"] = ("activation", "fisher")[i % 2]
    sweep["variants"][0] |= {"kl": 0.0826, "agreement": 0.822}
    shown = pages.read(pages.sweep(sweep))
    series = {each["label"]: each["data"] for each in shown["figures"]["perplexity-size"]["series"]}
    assert {"pca_dotresize, metric activation", "pca_dotresize, metric fisher"} < series.keys()
    assert sum(len(data) for name, data in series.items() if "metric" in name) == 4
    jobs = shown["tables"]["Jobs, by net size and perplexity"]
    assert "KL (nats a token)" in jobs[0] and {"0.0826", "82.2 %"} < set(jobs[2])
    assert {len(row) for row in jobs} == {len(jobs[0])}


def test_sweep_without_a_job_that_is_done_has_no_figure(pages):
    sweep = example_sweep(variants=example_sweep()["variants"][4:])
    del sweep["dense"]
    shown = pages.read(pages.sweep(sweep))
    assert shown["figures"] == {} and shown["summary"] == "8 combinations of settings, 1 refused."


def test_comparison_plots_perplexity_over_net_size_if_it_is_known(pages):
    first, second = example_report(), example_report(name="other", fingerprints={"evaluation_tokens": "1"})
    second["method"] = {"name": "slicegpt", "width": 216, "size": 0.8, "allocate": "auto", "map_sharing": "model"}
    paths = [pages.model(first, "one"), pages.model(second, "two")]
    shown = pages.read(paths)
    assert shown["warnings"] == ["not all perplexities are over the same tokens: they cannot be compared"]
    assert shown["tables"]["Models"] == [
        ["name", "method", "target", "format", "width", "bytes", "of dense", "perplexity", "change", "KL", "agreement",
         "took", "output"],
        ["small", "pca_dotresize", "", "custom", "200 of 256", "1.56 KiB", "80.0 %", "29.050", "+11.6 %", "0.1250",
         "75.0 %", "12 s", str(paths[0])],
        ["other", "slicegpt", "size 0.8, allocated", "stock", "200 to 216", "1.56 KiB", "80.0 %", "29.050", "+11.6 %",
         "0.1250", "75.0 %", "12 s", str(paths[1])]]
    assert shown["figures"]["perplexity-size"]["csv"] == (
        f"series,bytes of the model (% of the dense model's),perplexity,label\npca_dotresize,80,29.05,{paths[0]}\n"
        f"slicegpt,80,29.05,{paths[1]}\ndense model,100,26.03,\n")
    for report in (first, second):
        del report["compressed"]["perplexity"]
    assert pages.read([pages.model(first, "one"), pages.model(second, "two")])["figures"] == {}


def test_failure_has_the_error_the_log_and_the_job(pages):
    shown = pages.read(pages.failed(error="no <b>memory</b>", log="one\n\ttwo\n"))
    assert (shown["kind"], shown["error"]) == ("Compression without a result", "no <b>memory</b>")
    assert list(shown["texts"]) == ["End of the log", "Request"]
    assert shown["texts"]["End of the log"].startswith("one\n\ttwo\ndotresize-worker: error: ")
    assert json.loads(shown["texts"]["Request"])["name"] == "lost"


def test_pages_of_the_largest_reports_are_small(pages):
    sweep = example_sweep()
    sweep["variants"] += [variant("pca_dotresize", str(0.001 * i), "0.9", 0.5 + 1e-4 * i, 50 + 0.123456789 * i, i % 16 == 0)
                          for i in range(4096 - len(sweep["variants"]))]
    deep = junction("", 8192, 7000)
    deep["spectrum"] = {"ranks": list(range(1, 31)), "energy": [0.123456789] * 30}
    deep["transport"] |= {"rows": 64, "columns": 64,
                          "levels": base64.b64encode(bytes(i * 7919 % 251 for i in range(64 * 64))).decode()}
    report = example_report(junctions=[deep | {"name": f"layers.{i}.attention"} for i in range(513)])  # 256 layers
    for directory in (pages.sweep(sweep), pages.model(report)):
        page = pages.open(directory)
        assert page.complaints() == [] and (pages.folder / "page.html").stat().st_size < MAX_PAGE_BYTES
        assert len(page.evaluate(READ)["figures"]) > 1


def test_malformed_reports_are_refused_by_name(pages):
    report = example_report()
    report["junctions"][0]["effective_rank"] = "many"
    model = pages.model(report)
    assert f"{model}/dotresize/report.json: " in pages.report(model, exit_code=65)
    report = example_report()
    report["junctions"][0]["spectrum"]["energy"] = []
    pages.report(pages.model(report), exit_code=65)
    sweep = pages.sweep(example_sweep(variants={"one": example_sweep()["variants"][0]}))
    assert f"{sweep}/results.json: " in pages.report(sweep, exit_code=65)
