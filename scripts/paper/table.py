"""A table that is printed, and written as Markdown and as CSV."""

import csv
import io
from dataclasses import dataclass, field

from tabulate import tabulate

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    name: str
    form: str = "{}"  # for a value that is there
    scale: float = 1  # by which people see it multiplied

    def cell(self, value):
        if value is None:
            return NOTHING
        return self.form.format(value if self.scale == 1 else self.scale * value)


def share(name, form="{:.1f} %"):
    """A column of fractions."""
    return Column(name, form, 100)


@dataclass
class Table:
    """Rows of values as measured: columns say how people see them, a CSV file has them as they are."""

    name: str
    title: str
    columns: list
    rows: list
    notes: list = field(default_factory=list)

    def _formatted(self, style):
        cells = [[column.cell(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]
        align = ["left" if isinstance(value, str) else "right" for value in (self.rows[0] if self.rows else [])]
        header = [column.name for column in self.columns]
        return tabulate(cells, header, tablefmt=style, colalign=align or None, disable_numparse=True)

    def text(self):
        return "\n".join([self.title, "", self._formatted("simple"), *[f"  {note}" for note in self.notes]])

    def markdown(self):
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"{self._formatted('pipe')}\n{notes}"

    def csv(self):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        writer.writerows(self.rows)
        return text.getvalue()


def percent(fraction):
    """"20 %" of 0.2."""
    return f"{100 * fraction:g} %"
