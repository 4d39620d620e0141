"""Faults of test_chaos.py in which somebody's files are in the place of a job's: a link to them, or a directory."""

import contextlib
import shutil

from chaos.witness import remove

# Names of somebody's files: those of the product's own files in an output, in statistics, and in a variant of a sweep.
NAMES = ("README.md", "keep", "journal/job.json", "statistics.json", "junctions/first-0.json", "job.json", "log",
         "dotresize/report.json", "model.partial/journal/job.json")  # fmt: skip


def entries(folder):
    """Returns {name: content} of all that is below the folder; None for what is not a file."""
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


def exchange(faults, point, found, put_back):
    """Replaces the directory of `found`, (order, path), until the point is over. Returns the victim; None if it is gone."""
    if not found:
        return None
    order, path = found
    faults.witness.tampered_with(order)
    taken, link_to = faults.others / f"taken-{point.number}", faults.others / f"kept-{point.number}"
    for name in NAMES:
        (link_to / name).parent.mkdir(parents=True, exist_ok=True)
        (link_to / name).write_text(f"{name} of somebody else")
    theirs = entries(link_to)
    try:
        path.rename(taken)
        path.symlink_to(link_to)
    except OSError:  # it is complete and has another name, or a new one exists
        return None

    def restore():
        if path.is_symlink():
            path.unlink()
        if put_back:
            with contextlib.suppress(OSError):  # a new one exists, or the job's directory is removed
                taken.rename(path)
        shutil.rmtree(taken, ignore_errors=True)
        left = entries(link_to)
        if left != theirs:
            faults.witness.fault(order, f"through a link in place of {path} it has changed {left.items() ^ theirs.items()}")
        remove(link_to)

    faults.end_later(point.lasts, restore)
    return f"{path.relative_to(order.output.parent)} of {order.id}"


def directories(paths):
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def exchange_output(faults, point):
    found = faults.unfinished(point.choice, lambda order: directories([order.partial] if order.kind != "disk" else []))
    return exchange(faults, point, found, put_back=False)


def exchange_statistics(faults, point):
    found = faults.unfinished(point.choice, lambda order: directories([order.unfinished_statistics]))
    return exchange(faults, point, found, put_back=False)


def exchange_sweep(faults, point):
    """Meets a variant, or statistics, finished or not."""

    def what(order):
        places = ("variants/*", "statistics/*") if order.kind == "sweep" else ()
        return directories(sorted(path for place in places for path in order.output.glob(place)))

    return exchange(faults, point, faults.unfinished(point.choice, what), put_back=True)


def take_output(faults, point):
    """Makes a directory in the output's place, so that the complete output cannot get its name."""
    kinds = ("plain", "text", "statistics")
    found = faults.unfinished(
        point.choice, lambda order: [order.partial] if order.kind in kinds and order.is_in(point.stage) else []
    )
    if not found:
        return None
    order, _ = found
    order.may_fail = order.taken = True
    try:
        order.output.mkdir()
    except FileExistsError:  # it is complete
        return None
    (order.output / "keep").write_text("keep of somebody else")
    theirs = entries(order.output)

    def restore():
        if entries(order.output) != theirs:
            faults.witness.fault(order, "it has changed files in its output's place")
        remove(order.output)

    faults.end_later(point.lasts, restore)
    return f"{order.output.name} of {order.id}"
