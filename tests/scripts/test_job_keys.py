"""Tables of keys in docs/job-file.md."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import job_keys  # noqa: E402


def rows_of(page):
    return {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}


def test_the_page_says_what_the_comments_say():
    page = job_keys.PAGE.read_text()
    assert page == job_keys.with_tables(page, list(job_keys.Proto().keys()))


def test_every_key_of_a_job_has_its_row():
    proto = job_keys.Proto()

    def leaves(message, prefix=""):
        for field in proto.messages[message].field:
            if field.type == field.TYPE_MESSAGE:
                yield from leaves(field.type_name, f"{prefix}{field.name}.")
            else:
                yield prefix + field.name

    assert set(leaves(".dotresize.v1.JobSpec")) <= rows_of(job_keys.PAGE.read_text())


def test_a_default_goes_to_its_column():
    assert job_keys._columns("Passes, 0 to 100. Default: 3.", []) == ("3", "Passes, 0 to 100")
    assert job_keys._columns("Shown to people. Required.", []) == ("required", "Shown to people")
    assert job_keys._columns("Device.", [("auto", "what there is"), ("cpu", "")]) == (
        "`auto`", "Device. `auto`: what there is; `cpu`")
