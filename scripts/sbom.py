#!/usr/bin/env python3
"""Prints the bill of materials of programs and image, as CycloneDX 1.5 in JSON.

    scripts/sbom.py > dotresize.cdx.json

Contents: Debian's libraries in build/bin (or $DOTRESIZE_BIN), with the licences of docs/third-party.md, and the Python packages of
requirements*.txt, with the licences that the installed ones state. The same build gives the same bytes.
"""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
LICENCES = ROOT / "docs/third-party.md"
PROGRAMS = ("dotresize", "dotresize-server", "dotresize-worker")
# An environment whose scope is "excluded" is for tests: no image has it.
ENVIRONMENTS = (("requirements.txt", ".venv/lib/python*/site-packages", "required"),
                ("requirements-transformers4.txt", ".venv-transformers4", "excluded"))


def fail(message):
    sys.exit(f"sbom: error: {message}")


def table():
    """Returns (use, licence) of each Debian package in docs/third-party.md."""
    rows = re.findall(r"^\| `(\S+)` \| (linked|compiled in) \| (.+) \|$", LICENCES.read_text(), re.M)
    return {package: (use, licence) for package, use, licence in rows}


def linked_packages(folder):
    """Returns Debian's packages of all shared libraries that the programs load at their start, but not libtorch's."""
    files = set()
    for program in PROGRAMS:
        if not (folder / program).is_file():
            fail(f"{folder / program} is missing: run scripts/build.sh")
        listed = subprocess.run(["ldd", folder / program], check=True, capture_output=True, text=True).stdout
        if missing := re.findall(r"(\S+) => not found", listed):
            fail(f"{program} does not find {', '.join(missing)}")
        for library in re.findall(r"(/\S+) \(0x", listed):
            file = str(pathlib.Path(library).resolve())
            files |= {file, file.removeprefix("/usr")}  # dpkg knows the one or the other
    owners = subprocess.run(["dpkg-query", "-S", *sorted(files)], capture_output=True, text=True).stdout
    return {line.split(":")[0] for line in owners.splitlines()}


def debian_components(folder):
    known = table()
    if unknown := linked_packages(folder) - known.keys():
        fail(f"docs/third-party.md has no row for {', '.join(sorted(unknown))}")
    form = "${Package}\t${Version}\t${Architecture}\t${Homepage}\n"
    done = subprocess.run(["dpkg-query", "-W", "-f", form, *sorted(known)], capture_output=True, text=True)
    if done.returncode != 0:
        fail(done.stderr.strip())
    for line in done.stdout.splitlines():
        name, version, architecture, homepage = line.split("\t")
        use, licence = known[name]
        purl = f"pkg:deb/debian/{urllib.parse.quote(name)}@{urllib.parse.quote(version, safe='')}?arch={architecture}"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required",
               "licenses": [{"expression": licence}], "purl": purl,
               "externalReferences": [{"type": "website", "url": homepage}],
               "properties": [{"name": "dotresize:use", "value": use}]}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def stated_licences(metadata):
    """Returns CycloneDX's `licenses` of a package: its SPDX expression, else its classifiers, else the first line of its licence."""
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    names = [value.split(" :: ")[-1] for value in metadata.get_all("Classifier") or [] if value.startswith("License :: ")]
    names = names or (metadata.get("License") or "").splitlines()[:1]
    return [{"license": {"name": name}} for name in names]


def python_components(requirements, environment, scope):
    folders = [str(folder) for folder in ROOT.glob(environment)]
    licences = {normal(package.name): stated_licences(package.metadata) for package in importlib.metadata.distributions(path=folders)}
    for text in re.split(r"\n(?=\w)", (ROOT / requirements).read_text()):
        if not (found := re.match(r"([\w.-]+)(?:\[.*?\])?==([^\s;]+)", text)):
            continue
        name, version = normal(found[1]), found[2]
        purl = f"pkg:pypi/{name}@{urllib.parse.quote(version, safe='')}"
        # Each file that the package index has of a version has a hash of its own.
        hashes = sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": scope,
               "hashes": [{"alg": "SHA-256", "content": content} for content in hashes],
               "licenses": licences.get(name, []), "purl": purl}


def bill(folder):
    components = {component["bom-ref"]: component for component in debian_components(folder)}
    for environment in ENVIRONMENTS:
        for component in python_components(*environment):
            components.setdefault(component["bom-ref"], component)
    [version] = re.findall(r"project\(dotresize VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    root = {"type": "application", "bom-ref": f"dotresize@{version}", "name": "dotresize", "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}]}
    content = {"metadata": {"component": root}, "components": [components[ref] for ref in sorted(components)],
               "dependencies": [{"ref": root["bom-ref"], "dependsOn": sorted(components)}]}
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{number}", "version": 1, **content}


def main():
    print(json.dumps(bill(pathlib.Path(os.environ.get("DOTRESIZE_BIN", ROOT / "build/bin"))), indent=1))


if __name__ == "__main__":
    main()
