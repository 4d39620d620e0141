"""Tests that foreign images of deploy/ are pinned by digest, each in one place, and that scripts/image_digests.sh renews them."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = SOURCE / "deploy"
OWN = re.compile(r"dotresize(:\d+\.\d+\.\d+(-mpi)?)?")
PINNED = re.compile(r"[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def images_of_manifest(node):
    """Yields the values of all keys `image` in a manifest or compose file."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key == "image" and isinstance(value, str) else images_of_manifest(value)
    elif isinstance(node, list):
        for value in node:
            yield from images_of_manifest(value)


def images_of_dockerfile(text):
    """Returns the images that FROM and COPY --from name, with the defaults of arguments put in and without the file's own stages."""
    arguments = {f"${name}": value for name, value in re.findall(r"^ARG (\w+)=(\S+)", text, re.M)}
    stages = set(re.findall(r"^FROM .* AS (\S+)", text, re.M))
    named = re.findall(r"^FROM (?:--\S+ )*(\S+)", text, re.M) + re.findall(r"--from=(\S+)", text)
    return {arguments.get(name, name) for name in named} - stages


def images():
    """Returns every image that a file of deploy/ names, once for each file."""
    found = [image for file in DEPLOY.rglob("Dockerfile*") for image in images_of_dockerfile(file.read_text())]
    for file in [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]:
        found += images_of_manifest(list(yaml.safe_load_all(file.read_text())))
    return found


def test_images_that_are_not_built_here_are_pinned_by_digest():
    foreign = [image for image in images() if not OWN.fullmatch(image)]
    assert len(foreign) >= 3
    assert [image for image in foreign if not PINNED.fullmatch(image)] == []
    assert len(foreign) == len(set(foreign))
    text = "\n".join(file.read_text() for file in DEPLOY.rglob("*") if file.is_file())
    assert sorted(PINNED.findall(text)) == sorted(foreign), "each digest has one place"


def test_an_image_without_a_digest_is_found():
    assert images_of_dockerfile("ARG A=debian:12\nFROM $A AS build\nFROM build\nCOPY --from=busybox:1 / /\n") == {"debian:12", "busybox:1"}
    assert list(images_of_manifest([{"spec": {"containers": [{"image": "a:1"}]}}, {"image": "b"}])) == ["a:1", "b"]


@pytest.fixture
def tree(tmp_path):
    """Returns a copy of the script and of deploy/, and an environment whose `docker` knows one digest for all tags."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "scripts").mkdir()
    shutil.copy(SOURCE / "scripts/image_digests.sh", tmp_path / "scripts")
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\necho "$@" >> "$CALLS"\necho "$DIGEST"\n')
    docker.chmod(0o755)
    return tmp_path, {**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"),
                      "DIGEST": "sha256:" + "5" * 64}


def renew(tree, *arguments):
    folder, environment = tree
    return subprocess.run([folder / "scripts/image_digests.sh", *arguments], env=environment, capture_output=True, text=True, timeout=60)


def test_script_writes_the_digests_that_the_tags_have(tree):
    compose = tree[0] / "deploy/docker/compose.yaml"
    before = compose.read_text()
    assert renew(tree, "--check").returncode == 1
    assert compose.read_text() == before
    compose.write_text(re.sub(r"(grafana:[\d.]+@sha256:)[0-9a-f]+", r"\1", before))
    done = renew(tree)
    assert (done.returncode, done.stderr) == (0, "")
    assert compose.read_text() == re.sub(r"(@sha256:)[0-9a-f]+", r"\g<1>" + "5" * 64, before)
    assert "bookworm-20260824-slim@sha256:" + "5" * 64 in (tree[0] / "deploy/docker/Dockerfile").read_text()
    assert "inspect --format {{.Manifest.Digest}} prom/prometheus:v2.55.1\n" in (tree[0] / "calls").read_text()
    assert renew(tree, "--check").returncode == 0


def test_script_writes_nothing_that_is_no_digest(tree):
    tree[1]["DIGEST"] = "unauthorized"
    done = renew(tree)
    assert done.returncode == 1
    assert "image_digests: error: no digest of " in done.stderr
    assert (tree[0] / "deploy/docker/compose.yaml").read_text() == (DEPLOY / "docker/compose.yaml").read_text()


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")
def test_manifests_take_the_digest_of_a_pushed_image(tree):
    file = tree[0] / "deploy/kubernetes/server/kustomization.yaml"
    assert "newName: REGISTRY/dotresize\n" in file.read_text()
    file.write_text(file.read_text().replace("newTag: 0.1.0", f"newName: registry.example/dotresize\n    digest: {tree[1]['DIGEST']}"))
    done = subprocess.run(["kubectl", "kustomize", file.parent], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"image: registry.example/dotresize@{tree[1]['DIGEST']}\n") == 2
