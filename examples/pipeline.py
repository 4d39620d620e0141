"""From one job file to the best small model: submits a job for each method and size to a dotresize-server, follows them,
plots perplexity over size, and lets the best model that is small enough write a sentence.

    .venv/bin/python examples/pipeline.py HOST:PORT JOB.yaml [--methods M ...] [--sizes X ...] [--max-size X]

The server is on the same file system: outputs go beside the job's output.path, as PATH-METHOD-SIZE. In a notebook, call
the functions one by one. Needs the client (pip install ./client/python), matplotlib and transformers (.venv/ has these two).
"""
import os
import sys
import uuid

import grpc
from dotresize.client import JobFailed, read_job
from dotresize.v1 import job_pb2 as specs
from dotresize.v1 import jobs_pb2 as messages
from submit import Parser, add_connection, connect  # examples/submit.py

INTERRUPTED = 130


def variants(base, methods, sizes):
    """(labels, spec) of each method and size: the job file in these settings."""
    for method in methods:
        for size in sizes:
            spec = specs.JobSpec()
            spec.CopyFrom(base)
            spec.method.name = specs.Method.Name.Value(method)
            for target in ("sparsity", "width"):  # size takes their place
                spec.method.ClearField(target)
            spec.method.size = size
            if base.name:  # else the server takes that of the output
                spec.name = f"{base.name}-{method}-{size:g}"
            spec.output.path = f"{base.output.path}-{method}-{size:g}"
            yield {"method": method, "size": f"{size:g}"}, spec


def submit_all(client, run, settings):
    """A job for each. Under the same name of the run these are the same jobs, however often this is called; the label
    finds them: dotresize list --label run=NAME."""
    return [client.submit(spec, f"{run}-{labels['method']}-{labels['size']}", labels={"run": run, **labels})
            for labels, spec in settings]


def follow(client, job_id):
    """The job as it has ended."""
    def tell(progress):
        print(f"{job_id} {progress.fraction:4.0%} {progress.phase}", file=sys.stderr)
    try:
        return client.wait(job_id, tell)
    except JobFailed as failed:
        return failed.job


def results_of(ended):
    """A row for each job that has succeeded; the others are told."""
    rows = []
    for job in ended:
        if job.state != messages.Job.SUCCEEDED:
            print(f"{job.spec.name}: {messages.Job.State.Name(job.state)} {job.error.message}", file=sys.stderr)
            continue
        dense, compressed = job.result.dense, job.result.compressed
        rows.append({"method": job.options.labels["method"], "size": compressed.bytes / dense.bytes,
                     "perplexity": compressed.perplexity, "dense": dense.perplexity, "path": job.result.output_path})
    return rows


def print_table(rows):
    print(f"{'method':15} {'size':>7} {'perplexity':>11} {'change':>8}")
    for row in sorted(rows, key=lambda row: row["size"]):
        change = row["perplexity"] / row["dense"] - 1
        print(f"{row['method']:15} {100 * row['size']:5.1f} % {row['perplexity']:11.2f} {100 * change:+6.1f} %")


def plot(rows, file):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots()
    for method in sorted({row["method"] for row in rows}):
        points = sorted((100 * row["size"], row["perplexity"]) for row in rows if row["method"] == method)
        axes.plot(*zip(*points, strict=True), marker="o", label=method)
    axes.axhline(rows[0]["dense"], color="gray", linestyle=":", label="dense model")
    axes.set(xlabel="bytes, % of the dense model's", ylabel="perplexity", yscale="log")
    axes.legend()
    figure.savefig(file)
    plt.close(figure)


def best_of(rows, max_size):
    """The model of least perplexity among those that are small enough; None if none is."""
    return min((row for row in rows if row["size"] <= max_size), key=lambda row: row["perplexity"], default=None)


def generate(path, prompt, new_tokens=40):
    """Continues the prompt. trust_remote_code: the server's dotresize wrote the code in the directory."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=True)
    tokens = tokenizer(prompt, return_tensors="pt")
    written = model.generate(**tokens, max_new_tokens=new_tokens, do_sample=False)
    return tokenizer.decode(written[0], skip_special_tokens=True)


def parse_arguments():
    parser = Parser(description=__doc__.split("\n\n")[0])
    add_connection(parser)
    parser.add_argument("job", metavar="JOB.yaml", help="with an evaluation")
    parser.add_argument("--methods", nargs="+", default=["slicegpt", "pca_dotresize"], metavar="M",
                        choices=specs.Method.Name.keys())
    parser.add_argument("--sizes", nargs="+", type=float, default=[0.9, 0.8, 0.7], metavar="X")
    parser.add_argument("--max-size", type=float, default=0.8, metavar="X", help="largest size of the model that writes (default: 0.8)")
    parser.add_argument("--run", default=str(uuid.uuid4()), help="name of this run: the same one gives the same jobs")
    parser.add_argument("--plot", default="sizes.svg", metavar="FILE")
    parser.add_argument("--prompt", default="The with statement", metavar="TEXT")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        base = read_job(arguments.job)
        if not base.HasField("evaluation"):
            raise ValueError(f"{arguments.job}: evaluation: required, the jobs are compared by their perplexity")
        with connect(arguments) as client:
            submitted = submit_all(client, arguments.run, variants(base, arguments.methods, arguments.sizes))
            rows = results_of([follow(client, job.id) for job in submitted])
    except grpc.RpcError as error:
        sys.exit(f"pipeline.py: error: {error.details() or error.code().name}")
    except (ValueError, OSError) as error:  # BadJob; a token without TLS
        sys.exit(f"pipeline.py: error: {error}")
    except KeyboardInterrupt:
        print(f"pipeline.py: interrupted; the jobs go on: --run {arguments.run} finds them again", file=sys.stderr)
        sys.exit(INTERRUPTED)
    if not rows:
        sys.exit("pipeline.py: error: no job has succeeded")
    print_table(rows)
    plot(rows, arguments.plot)
    best = best_of(rows, arguments.max_size)
    if not best:
        sys.exit(f"pipeline.py: error: no model is within {100 * arguments.max_size:g} % of the bytes")
    print(f"\nbest up to {100 * arguments.max_size:g} %: {best['path']}\n\n{generate(best['path'], arguments.prompt)}")


if __name__ == "__main__":
    main()
