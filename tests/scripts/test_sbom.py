"""The bill of materials, and the table of licences in docs/third-party.md."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import sbom
from packaging.licenses import canonicalize_license_expression

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("DOTRESIZE_BIN", ROOT / "build/bin"))
TESTS_ONLY = {"libgtest-dev", "libgmock-dev", "libbenchmark-dev", "libclang-rt-dev"}

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="this is no Debian")


def printed(seed):
    environment = {**os.environ, "DOTRESIZE_BIN": str(PROGRAMS), "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, ROOT / "scripts/sbom.py"], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def bill():
    return json.loads(printed("1"))


def test_every_linked_library_has_a_licence_and_every_row_a_use():
    linked, rows = sbom.linked_packages(PROGRAMS), sbom.table()
    assert len(linked) > 10
    assert linked <= rows.keys(), "docs/third-party.md"
    depends = set(re.search(r"PACKAGE_DEPENDS\s+([^)]*)\)", (ROOT / "cmake/Package.cmake").read_text()).group(1).split())
    assert {package for package, (use, _) in rows.items() if use == "linked"} <= linked | depends


def test_every_row_of_the_page_is_read_and_has_an_spdx_expression():
    rows = sbom.table()
    assert len(rows) == sbom.LICENCES.read_text().count("\n| `")
    for _, licence in rows.values():
        assert canonicalize_license_expression(licence) == licence


def test_every_library_of_the_setup_is_in_the_table():
    rows = sbom.table()
    names = set(re.findall(r"\b[a-z][a-z0-9+.-]*-dev\b", (ROOT / "scripts/setup.sh").read_text())) - TESTS_ONLY
    assert len(names) > 10
    for name in names:
        depends = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}", name], check=True, capture_output=True, text=True).stdout
        assert ({name} | set(re.findall(r"[a-z][a-z0-9+.-]+", depends))) & rows.keys(), name


def test_a_linked_library_without_a_row_is_named(tmp_path, monkeypatch):
    page = tmp_path / "third-party.md"
    page.write_text(re.sub(r"\| `libfmt9` .*\n", "", sbom.LICENCES.read_text()))
    monkeypatch.setattr(sbom, "LICENCES", page)
    with pytest.raises(SystemExit, match="no row for libfmt9$"):
        sbom.bill(PROGRAMS)


def test_the_same_build_gives_the_same_bytes(bill):
    assert printed("2") == json.dumps(bill, indent=1) + "\n"
    assert "timestamp" not in bill["metadata"]


def test_bill_has_every_package_and_hash_of_the_requirements(bill):
    hashes = {component["purl"]: {entry["content"] for entry in component.get("hashes", [])} for component in bill["components"]}
    for file in ("requirements.txt", "requirements-transformers4.txt"):
        text = (ROOT / file).read_text()
        for name, version in re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", text, re.M):
            own = set(re.findall(r"sha256:(\w+)", re.search(rf"^{re.escape(name)}\W.*(?:\n +--hash.*)*", text, re.M).group(0)))
            assert own and own <= hashes[f"pkg:pypi/{sbom.normal(name)}@{version}"], name


def test_bill_is_what_cyclonedx_asks_for(bill):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(references) == len(set(references))
    assert bill["dependencies"] == [{"ref": bill["metadata"]["component"]["bom-ref"], "dependsOn": references}]
    for component in bill["components"]:
        assert component["version"] and component["licenses"], component["name"]
    scopes = {component["name"]: component["scope"] for component in bill["components"] if component["purl"].startswith("pkg:pypi/transformers@4")}
    assert scopes == {"transformers": "excluded"}, "transformers 4 is for tests"


def test_the_project_names_one_licence(bill):
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert (ROOT / "LICENSE").read_text().startswith("SPDX-License-Identifier: Apache-2.0\n")
    assert 'license = "Apache-2.0"' in (ROOT / "client/python/pyproject.toml").read_text()
