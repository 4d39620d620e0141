"""Tables of docs/speed.json, which scripts/speed.py adds to."""

from paper.table import Column, Table

DECODE = "decode"


def order(what):
    """Prompts by their length, then new tokens."""
    return (1, 0) if what == DECODE else (0, int(what.split()[-1]))


def cell(row):
    if row["model"] == "dense":
        return f"{row['tokens_per_s']:.1f}/s"
    return f"{row['times_dense']:.2f} of {row['promised']:.2f}"


def speed_table(rows):
    """A row for each engine, type and model: times the dense model's speed, and what is promised; the dense one's tokens a second."""
    whats = sorted({row["what"] for row in rows}, key=order)
    names = ["new tokens" if what == DECODE else what for what in whats]
    columns = [Column("engine"), Column("type"), Column("model"), *map(Column, names), Column("resident MB", "{:,.0f}")]
    by_model = {}
    for row in rows:
        by_model.setdefault((row["engine"], row["type"], row["model"]), {})[row["what"]] = row
    cells = []
    for (engine, kind, model), found in by_model.items():
        cells.append([engine, kind, model, *(cell(found[what]) for what in whats), found[DECODE]["resident_bytes"] / 1e6])
    return Table("speed", "", columns, cells)


def speed_tables(document):
    """By the name of the dense model's part of the document."""
    return {name: speed_table(rows) for name, rows in document.items()}
