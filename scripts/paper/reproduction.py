"""The steps of a reproduction: jobs, measurements, tables, figures, the page."""

from pathlib import Path

from .cost import gpu_memory, measured_latency
from .page import order_section, order_text, page
from .programs import Failure
from .published import DENSE
from .sweeps import OF_TASKS, PAPER_LAMBDA, methods_sweep, run_sweep, samples_sweep, tasks_sweep
from .tables import (
    GPU_TIME,
    cost_table,
    effective_rank_table,
    energy_table,
    kept_models,
    lambda_table,
    perplexity_table,
    samples_table,
    tasks_table,
)


def latency_of(inputs, plan, results, failures):
    """Latencies by path; {} if not requested, or if measuring has failed, which `failures` then has."""
    if not plan.latency:
        return {}
    models = [inputs.model, *(row["model"] for _, row in kept_models(plan, results))]
    try:
        return measured_latency(models, plan.output)
    except Failure as error:
        failures.append(str(error))
        return {}


def models_of_tasks(inputs, plan, failures):
    """The models to be scored, by (sparsity, method). `failures` gets what could not be made."""
    models = {(None, DENSE): inputs.model}
    try:
        results = run_sweep("tasks", tasks_sweep(inputs, plan), plan)
    except Failure as error:
        failures.append(f"models for the tasks: {error}")
        return models
    failures += results.failures()
    for sparsity in plan.sparsities:
        for method in OF_TASKS:
            if row := results.row(name=method, sparsity=sparsity):
                models[sparsity, method] = Path(row["model"])
    return models


def measure_tasks(inputs, plan, failures):
    """Accuracies by (sparsity, method), and why tasks are left out. `failures` gets what could not be made or scored."""
    from .tasks import five_tasks, run_harness, tasks_with_data

    there, missing = tasks_with_data(five_tasks())
    accuracies = {}
    models = models_of_tasks(inputs, plan, failures) if there else {}
    for setting, model in models.items():
        folder = plan.output / "tasks" / (DENSE if model == inputs.model else model.parent.name)
        try:
            accuracies[setting] = run_harness(model, there, folder)
        except Failure as error:
            failures.append(str(error))
    return accuracies, missing


def report_with_ranks(plan, results):
    """The report of a job that knows the eigenvalues: a PCA method's, whatever its size."""
    for sparsity in plan.sparsities:
        for method in ("pca_dotresize", "slicegpt"):
            if row := results.row(name=method, sparsity=sparsity, **{"lambda": PAPER_LAMBDA}):
                return results.report(row)
    return None


def make_tables(inputs, plan, left_out, results, samples, failures):
    tables = [perplexity_table(inputs, plan, results), energy_table(plan, results), lambda_table(plan, results)]
    if plan.sample_counts or left_out:
        tables.append(samples_table(inputs, plan, samples, left_out))
    if report := report_with_ranks(plan, results):
        tables.append(effective_rank_table(inputs, report))
    tables.append(cost_table(inputs, plan, results, latency_of(inputs, plan, results, failures)))
    return tables


def cost_points(plan, results, table):
    """(sparsity, GPU ms a token, perplexity) of what was measured."""
    kept = kept_models(plan, results)
    sizes = [(0.0, results.dense["perplexity"]), *((sparsity, row["perplexity"]) for sparsity, row in kept)]
    column = [column.name for column in table.columns].index(GPU_TIME)
    costs = [row[column] for row in table.rows]
    return [(size, cost, value) for (size, value), cost in zip(sizes, costs, strict=True) if cost is not None]


def make_figures(inputs, plan, results, samples, tables):
    """The names of the tables that have one."""
    from . import figures  # matplotlib takes a while

    folder = plan.output / "figures"
    folder.mkdir(exist_ok=True)
    made = [figures.perplexity_figure(inputs, plan, results, folder), figures.lambda_figure(plan, results, folder)]
    if plan.sample_counts:
        made.append(figures.samples_figure(inputs, plan, samples, folder))
    for table in tables:
        if table.name == "effective_rank":
            made.append(figures.effective_rank_figure(table, inputs.config["hidden_size"], folder))
        if table.name == "cost" and (points := cost_points(plan, results, table)):
            made.append(figures.cost_figure(points, folder))
    return made


def write(plan, tables, text):
    folder = plan.output / "tables"
    folder.mkdir(exist_ok=True)
    for table in tables:
        (folder / f"{table.name}.md").write_text(f"# {table.title}\n\n{table.markdown()}", encoding="utf-8")
        (folder / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
    (plan.output / "README.md").write_text(text, encoding="utf-8")


def reproduce(inputs, plan, left_out, command):
    """Runs, prints and writes all of it. Returns what could not be made; throws Failure if nothing can."""
    gpu_memory(plan.hardware)  # a bad file is told before the work
    results = run_sweep("methods", methods_sweep(inputs, plan), plan)
    if results.dense is None:
        raise Failure("no job has succeeded: " + "; ".join(results.failures()), 1)
    samples = run_sweep("samples", samples_sweep(inputs, plan), plan) if plan.sample_counts else None
    failures = [*results.failures(), *(samples.failures() if samples else [])]
    tables = make_tables(inputs, plan, left_out, results, samples, failures)
    if plan.tasks:
        tables.append(tasks_table(inputs, plan, *measure_tasks(inputs, plan, failures)))
    order = order_section(inputs, plan, results)
    figures = make_figures(inputs, plan, results, samples, tables)
    write(plan, tables, page(inputs, results, order, tables, figures, failures, command))
    for table in tables:
        print(table.text(), end="\n\n")
    print(f"Order of the methods\n\n{order_text(order)}\n{plan.output / 'README.md'}")
    return failures
