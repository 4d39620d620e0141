"""Fixtures: the built programs, a server of their own, and jobs that take a second."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DOTRESIZE_BIN", SOURCE / "build" / "bin"))

sys.path.append(str(SOURCE / "tests"))
from client_package import make_client_package  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Gives all programs a cache that no earlier run has filled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@functools.cache
def client_package():
    """Returns a directory with the Python client, for the examples."""
    package = tempfile.TemporaryDirectory(prefix="dotresize-client-")
    make_client_package(package.name)
    return package


def example_environment(**more):
    return os.environ | {"PYTHONPATH": client_package().name, "OMP_NUM_THREADS": "1"} | more


def read_until(stream, text):
    """Reads lines up to and including one that contains the text."""
    read = []
    while not read or text not in read[-1]:
        read.append(stream.readline())
        assert read[-1], f"it ends without '{text}':\n{''.join(read)}"


class Cli:
    """The program `dotresize`, talking to one server."""

    def __init__(self, server):
        self.server = server
        self.started = []

    def environment(self):
        return os.environ | {"DOTRESIZE_SERVER": self.server, "TERM": "dumb", "TZ": "UTC"}

    def __call__(self, *arguments, exit_code=0, timeout=120):
        done = subprocess.run([BIN / "dotresize", *map(str, arguments)], env=self.environment(),
                              capture_output=True, text=True, timeout=timeout)
        assert done.returncode == exit_code, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments, exit_code=0):
        return json.loads(self(*arguments, "-o", "json", exit_code=exit_code).stdout)

    def start(self, *arguments):
        """Starts the program. close() ends it if the test fails."""
        self.started.append(subprocess.Popen([BIN / "dotresize", *map(str, arguments)], env=self.environment(),
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.started[-1]

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


class Server:
    """A `dotresize-server` on a free loopback port. A restart uses the same port."""

    def __init__(self, state, *options):
        self.state = state
        self.options = options
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [BIN / "dotresize-server", "--listen", "127.0.0.1:0", "--state", self.state,
             *self.options], stdout=subprocess.PIPE, text=True)
        greeting = self.process.stdout.readline()
        assert greeting.startswith("listening on "), greeting
        self.address = greeting.split()[-1]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=30)

    def close(self):
        """Ends the server's jobs, which would outlive it, then the server."""
        if self.process.poll() is not None:
            self.start()
        cli = Cli(self.address)
        for job in cli.json("list", "--state", "queued,starting,running")["jobs"]:
            cli("cancel", job["id"], "--wait")
        self.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("state"), "--max-ranks", "2")
    yield running
    running.close()


@pytest.fixture
def own_server(tmp_path):
    """Returns a server that the test may end."""
    running = Server(tmp_path / "state", "--max-ranks", "2")
    yield running
    running.close()


@pytest.fixture
def cli(server):
    running = Cli(server.address)
    yield running
    running.close()


@pytest.fixture
def own_cli(own_server):
    running = Cli(own_server.address)
    yield running
    running.close()


@pytest.fixture
def offline():
    """Returns the command line for an address without a server."""
    running = Cli("127.0.0.1:1")
    yield running
    running.close()


class JobFiles:
    """Writes job files. `options` replace or add keys, one section at a time."""

    def __init__(self, folder, ranks=2):
        self.folder = folder
        self.ranks = ranks
        self.tokens = folder / "tokens.safetensors"
        tokens = load_file(SOURCE / "tests" / "data" / "evaluation.safetensors")["tokens"]
        save_file({"tokens": np.ascontiguousarray(tokens[:2, :64])}, self.tokens)

    def __call__(self, name="tiny", **options):
        spec = {
            "name": name,
            "model": {"path": str(SOURCE / "examples" / "docs-llama")},
            "output": {"path": str(self.folder / f"out-{name}")},
            "method": {"name": "slicegpt", "width": 128},
            "calibration": {"tokens": str(self.tokens)},
            "resources": {"ranks": self.ranks},
        }
        for section, values in options.items():
            spec[section] = spec.get(section, {}) | values
            for key in [key for key, value in values.items() if value is None]:
                del spec[section][key]
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(spec))
        return file

    def evaluated(self, name="tiny", **options):
        return self(name, evaluation={"tokens": str(self.tokens)}, **options)

    def endless(self, name="endless", **options):
        """Writes a job that takes many minutes, because it has many tokens."""
        tokens = self.folder / "many-tokens.safetensors"
        save_file({"tokens": np.full((8192, 512), 17, dtype=np.int32)}, tokens)
        calibration = {"tokens": str(tokens), "activations": "original"}
        return self(name, calibration=calibration, **options)



@pytest.fixture
def job_files(tmp_path):
    return JobFiles(tmp_path)
