"""Tests that the files of deploy/ are consistent with each other and with the programs, and that an installation runs."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import pytest
import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = SOURCE / "deploy"
BUILD = pathlib.Path(os.environ.get("DOTRESIZE_BUILD", SOURCE / "build"))
SERVER = BUILD / "bin/dotresize-server"
MANIFESTS = DEPLOY / "kubernetes/server"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, **options)


def documents(file):
    return list(yaml.safe_load_all(file.read_text()))


def find(kind, name=None):
    """Returns the server's manifest of this kind (and name)."""
    found = [document for file in MANIFESTS.glob("*.yaml") for document in documents(file)
             if document["kind"] == kind and name in (None, document["metadata"]["name"])]
    assert len(found) == 1, (kind, name)
    return found[0]


@pytest.fixture(scope="module")
def server_help():
    return run(SERVER, "--help").stdout


@pytest.fixture(scope="module")
def metric_names(tmp_path_factory):
    """Returns the metric names of a server that has answered one call."""
    state = tmp_path_factory.mktemp("server") / "state"
    process = subprocess.Popen(
        [SERVER, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state", state],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "DOTRESIZE_WORKER": "/bin/false"}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)
    try:
        endpoint, url = (process.stdout.readline().split()[-1] for _ in range(2))
        assert run(BUILD / "bin/dotresize", "list", "--server", endpoint).returncode == 0
        with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    finally:
        process.terminate()
        code = process.wait(20)
    assert code == 0
    return set(re.findall(r"^# TYPE (\S+)", text, re.M))


@pytest.mark.parametrize("file", sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.json")]),
                         ids=lambda file: str(file.relative_to(DEPLOY)))
def test_file_is_well_formed(file):
    assert documents(file) if file.suffix == ".yaml" else json.loads(file.read_text())


def expressions():
    rules = documents(DEPLOY / "monitoring/alerts.yaml")[0]["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "monitoring/dashboard.json").read_text())["panels"]
    return [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]


def test_alerts_and_dashboard_ask_for_metrics_that_there_are(metric_names):
    for expression in expressions():
        for name in re.findall(r"dotresize_\w+", expression):
            assert re.sub(r"_bucket$", "", name) in metric_names, expression


def test_every_metric_and_every_alert_is_in_the_documents(metric_names):
    text = (SOURCE / "docs/operations.md").read_text()
    for name in metric_names:
        short = re.sub(r"dotresize_(capacity|used)", "", name)
        assert f"`{name}" in text or f"`{short}`" in text, name
    for rule in documents(DEPLOY / "monitoring/alerts.yaml")[0]["groups"][0]["rules"]:
        assert f"`{rule['alert']}`" in text, rule["alert"]


def test_options_of_the_server_exist(server_help):
    compose = documents(DEPLOY / "docker/compose.yaml")[0]["services"]["server"]["command"]
    container = find("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    container += documents(DEPLOY / "kubernetes/mpi-server/deployment.yaml")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    flags = {part.split("=")[0] for part in compose + container if part.startswith("--")}
    for file in ("systemd/server.yaml", "slurm/server.yaml"):
        flags |= {"--" + key.replace("_", "-") for key in documents(DEPLOY / file)[0]}
    assert len(flags) > 8
    for flag in flags:
        assert re.search(rf"^\s+{flag} ", server_help, re.M), flag
    unit = (DEPLOY / "systemd/dotresize-server.service").read_text()
    for variable in set(re.findall(r"DOTRESIZE_[A-Z_]+", unit)):
        assert variable in server_help


def test_options_of_the_server_are_those_of_its_document(server_help):
    options = {line.split()[0] for line in server_help.splitlines() if re.match(r" +--[a-z]", line)} - {"--version"}
    [table] = re.findall(r"^\| flag \|.*?\n\n", (SOURCE / "docs/server.md").read_text(), re.M | re.S)
    assert {flag for row in table.strip().splitlines() for flag in re.findall(r"--[a-z][a-z-]*", row.split("|")[1])} == options
    for option in options:
        name = option[2:].replace("-", "_")
        assert f"`DOTRESIZE_{name.upper()}`" in table and (f"`{name}" in table or option == "--config"), option


@pytest.mark.parametrize("file", ["systemd/server.yaml", "slurm/server.yaml"])
def test_configuration_is_taken(tmp_path, file):
    done = run(SERVER, "--config", DEPLOY / file, "--state", tmp_path / "state",
               "--allow-root", tmp_path, env={**os.environ, "DOTRESIZE_WORKER": "/bin/false"})
    assert done.returncode == 64
    assert "/etc/dotresize/" in done.stderr, "all keys were taken; then its files are missing"


def test_deployment_fits_together():
    pod = find("Deployment")["spec"]["template"]
    labels, pod = pod["metadata"]["labels"], pod["spec"]
    assert find("Deployment")["spec"]["selector"]["matchLabels"] == labels == find("Service")["spec"]["selector"]
    assert find("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    find("ServiceAccount", pod["serviceAccountName"])
    find("ServiceAccount", find("RoleBinding")["subjects"][0]["name"])
    assert find("RoleBinding")["roleRef"]["name"] == find("Role")["metadata"]["name"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == find("PersistentVolumeClaim")["metadata"]["name"]
    server = pod["containers"][0]
    for container in pod["containers"] + pod["initContainers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys()
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    arguments = dict(argument[2:].split("=") for argument in server["args"] if argument.startswith("--"))
    assert arguments["listen"] == f"0.0.0.0:{ports['grpc']}"
    assert arguments["http"] == f"0.0.0.0:{ports['http']}"
    mounts = {mount["mountPath"] for mount in server["volumeMounts"]}
    for option in ("state", "tls", "tokens", "allow-root"):
        assert any(f"{arguments[option]}/".startswith(f"{mount}/") for mount in mounts), option
    assert {port["targetPort"] for port in find("Service")["spec"]["ports"]} == ports.keys()
    assert {entry["port"] for rule in find("NetworkPolicy")["spec"]["ingress"] for entry in rule["ports"]} == ports.keys()


def test_who_scrapes_the_server_has_a_token_and_its_authority():
    [monitor] = documents(DEPLOY / "kubernetes/monitoring/service-monitor.yaml")
    service = find("Service")
    kustomization = documents(MANIFESTS / "kustomization.yaml")[0]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= kustomization["labels"][0]["pairs"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["tlsConfig"]["serverName"] == service["metadata"]["name"]
    arguments = find("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert any(argument.startswith("--tokens=") for argument in arguments)
    assert endpoint["scheme"] == "https" and endpoint["authorization"]["credentials"] == {"name": "dotresize-metrics", "key": "token"}
    assert "annotations" not in service["metadata"], "who scrapes by annotations alone has no token: 401"


def test_server_of_mpijobs_and_their_pods_fit_together():
    """The template mounts what the server's options name, and the pods can reach the server."""
    folder = DEPLOY / "kubernetes/mpi-server"
    pod = documents(folder / "deployment.yaml")[0]["spec"]["template"]["spec"]
    server = pod["containers"][0]
    arguments = dict(argument[2:].split("=") for argument in server["args"] if argument.startswith("--"))
    mounts = {mount["mountPath"] for mount in server["volumeMounts"] if "$patch" not in mount}
    assert all(any(arguments[option].startswith(f"{mount}/") for mount in mounts) for option in ("state", "allow-root"))
    assert arguments["workers"] == f"0.0.0.0:{server['ports'][0]['containerPort']}"
    assert documents(folder / "service.yaml")[0]["spec"]["ports"][0]["port"] == server["ports"][0]["containerPort"]
    assert pod["hostname"] == find("Service")["metadata"]["name"], "ranks are told the host's name"
    role, binding = documents(folder / "rbac.yaml")
    assert role["rules"] == [{"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"],
                              "verbs": ["create", "get", "list", "delete"]}]
    assert binding["subjects"][0]["name"] == find("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    components = set()
    for replica in documents(DEPLOY / "kubernetes/mpijob.yaml")[0]["spec"]["mpiReplicaSpecs"].values():
        components.add(replica["template"]["metadata"]["labels"]["app.kubernetes.io/component"])
        assert mounts <= {mount["mountPath"] for mount in replica["template"]["spec"]["containers"][0]["volumeMounts"]}
    ranks = documents(folder / "network-policy.yaml")[1]["spec"]["podSelector"]["matchExpressions"][0]["values"]
    assert components == set(ranks)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")
@pytest.mark.parametrize("folder, kinds", [("server", 9), ("mpi-server", 12)])
def test_kustomize_renders_the_folder(folder, kinds):
    done = run("kubectl", "kustomize", DEPLOY / "kubernetes" / folder)
    assert done.returncode == 0, done.stderr
    rendered = list(yaml.safe_load_all(done.stdout))
    assert len(rendered) == kinds
    assert "image: dotresize:0.1.0" in done.stdout
    assert "$patch" not in done.stdout
    assert all(document["metadata"].get("namespace", "dotresize") == "dotresize" for document in rendered)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_unit_is_valid_and_hardened(tmp_path):
    unit = (DEPLOY / "systemd/dotresize-server.service").read_text()
    file = tmp_path / "dotresize-server.service"
    file.write_text(unit.replace("/usr/bin/dotresize-server", str(SERVER)))
    done = run("systemd-analyze", "verify", "--man=no", file)
    assert (done.returncode, done.stderr) == (0, "")
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=30", file)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", ["slurm/dotresize.sbatch", "debian/postinst"])
def test_script_has_no_syntax_error(file):
    assert run("bash", "-n", DEPLOY / file).returncode == 0


def needed_packages():
    """Returns Debian's packages of the libraries that the programs are linked with."""
    cache = run("/sbin/ldconfig", "-p").stdout
    files = set()
    for program in ("dotresize", "dotresize-server", "dotresize-worker"):
        for library in re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", BUILD / "bin" / program).stdout):
            found = re.search(rf"^\s+{re.escape(library)} .*=> (\S+)$", cache, re.M)
            if not found:
                continue  # libtorch
            file = str(pathlib.Path(found.group(1)).resolve())
            files |= {file, file.removeprefix("/usr")}  # /lib may be a link to /usr/lib
    owners = run("dpkg-query", "-S", *files).stdout  # one line per known file
    # The three excluded packages come with anything that is installed.
    return {line.split(":")[0] for line in owners.splitlines()} - {"libc6", "libgcc-s1", "libstdc++6"}


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="this is no Debian")
def test_package_and_image_have_the_libraries_of_the_programs():
    packages = needed_packages()
    assert len(packages) > 10
    depends = re.search(r'CPACK_DEBIAN_PACKAGE_DEPENDS "(.*)"', (BUILD / "CPackConfig.cmake").read_text()).group(1)
    assert packages <= set(depends.split(", ")), "cmake/Package.cmake"
    image = (DEPLOY / "docker/Dockerfile").read_text().split(" AS dotresize")[1]
    assert packages <= set(image.split()), "deploy/docker/Dockerfile"


def test_image_is_built_with_cuda_or_not_at_all_and_is_given_the_gpus():
    build, image = (DEPLOY / "docker/Dockerfile").read_text().split(" AS dotresize")
    assert "-DDOTRESIZE_WITH_CUDA=ON" in build and "DOTRESIZE_WITH_CUDA" in (SOURCE / "cmake/LibtorchCuda.cmake").read_text()
    assert "NVIDIA_VISIBLE_DEVICES=all" in image
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in image


def test_installed_programs_run(tmp_path):
    done = run("cmake", "--install", BUILD, "--prefix", tmp_path)
    assert done.returncode == 0, done.stderr
    for program in ("dotresize", "dotresize-server", "dotresize-worker"):
        done = run(tmp_path / "bin" / program, "--help")
        assert (done.returncode, done.stderr) == (0, ""), program
    for file in ("lib/systemd/system/dotresize-server.service", "lib/sysusers.d/dotresize.conf",
                 "share/dotresize/launchers/slurm", "share/dotresize/launchers/kubernetes", "share/dotresize/launchers/ssh",
                 "share/doc/dotresize/operations.md", "share/doc/dotresize/examples/monitoring/alerts.yaml"):
        assert (tmp_path / file).is_file(), file
