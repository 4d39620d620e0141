"""Models, texts and outputs on the Hugging Face Hub and in S3-compatible stores.

    python remote_files.py fetch URL --kind model|config|file --cache DIR --cache-size BYTES
    python remote_files.py look URL [--overwrite] [--rights JSON] [--model DIR]
    python remote_files.py push DIR URL [--overwrite] [--rights JSON]

fetch: brings a model (config.json, its weights, tokenizer files), all of it but the weights, or one file into
the cache, and goes on with what an earlier call has left. look: refuses an output that exists. push: uploads a model directory,
what makes it loadable last. --rights: whose outputs may be replaced (base/files/output_owner.h); without it everybody's.
URL: hf://OWNER/NAME[@REVISION], s3://BUCKET/KEY; of a file hf://[datasets/]OWNER/NAME[@REVISION]/PATH.
The credentials are those of the environment and of the libraries' own files.
stdout has a JSON object on each line: {"progress": {"bytes_done", "bytes_total", "bytes_per_second", "eta_s"}}, in
seconds, null while unknown, and at the end {"result": {"path", "revision"}} or {"error": {"code", "message"}}.
Codes: NOT_FOUND, NO_CREDENTIALS, NO_PERMISSION, NETWORK, NO_SPACE, EXISTS, INVALID.
Exit codes: 0; 64 usage; 65 an error of these codes; 69 a package is missing; 1 anything else.
"""

import argparse
import json
import os
import resource
import stat
import sys
from pathlib import Path

from remote_cache import MOST_FILES, fetch
from remote_stores import CONFIG, INDEX, SINGLE, SUMS, Meter, RemoteError, S3Store, require_free, say, sha256_of, store_of

EXIT_DATA = 65
EXIT_UNAVAILABLE = 69
MEMORY_BYTES = 8 << 30


class Local:
    """A file of the output. `last`: without it nobody loads the model, or takes it for whole."""

    def __init__(self, path, name, sha256):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise RemoteError("INVALID", f"{name}: is not a regular file")
        self.path, self.name, self.size = path, name, path.lstat().st_size
        self.sha256 = sha256 or sha256_of(path)
        self.last = name in (CONFIG, INDEX, SINGLE, SUMS)


def local_files(directory):
    """Files in the order in which they are pushed; SHA256SUMS is the last one."""
    root = Path(directory)
    sums = dict(reversed(line.split("  ", 1)) for line in (root / SUMS).read_text().splitlines())
    files = []
    for path in sorted(root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = path.relative_to(root).as_posix()
        files.append(Local(path, name, sums.get(name)))
        if len(files) > MOST_FILES:
            raise RemoteError("INVALID", f"{directory}: has more than {MOST_FILES} files")
    order = [SINGLE, CONFIG, INDEX, SUMS]
    return sorted(files, key=lambda file: order.index(file.name) if file.name in order else -1)


def look(options):
    store = store_of(options.url)
    there, _ = store.names()
    local = local_files(options.model) if options.model else []
    unfinished = isinstance(store, S3Store) and bool(local) and store.marker(there) == sha256_of(local[-1].path)
    require_free(store, there, local, options, unfinished)
    return {}


def push(options):
    store = store_of(options.url)
    local = local_files(options.directory)
    meter = Meter()
    meter.begin(0, sum(file.size for file in local))
    try:
        return {"revision": store.push(local, options, meter)}
    finally:
        meter.end()


def add_replacement(command):
    command.add_argument("--overwrite", action="store_true")
    command.add_argument("--rights", type=json.loads, default={"any": True})


def parse(arguments):
    parser = argparse.ArgumentParser(prog="remote_files.py")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("fetch")
    command.add_argument("url")
    command.add_argument("--kind", choices=["model", "config", "file"], required=True)
    command.add_argument("--cache", required=True)
    command.add_argument("--cache-size", type=int, required=True)
    command.set_defaults(action=fetch)
    command = commands.add_parser("look")
    command.add_argument("url")
    add_replacement(command)
    command.add_argument("--model")
    command.set_defaults(action=look)
    command = commands.add_parser("push")
    command.add_argument("directory")
    command.add_argument("url")
    add_replacement(command)
    command.set_defaults(action=push)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    os.umask(0o022)
    memory = min(MEMORY_BYTES, *(limit % 2**64 for limit in resource.getrlimit(resource.RLIMIT_AS)))  # -1 is no limit
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        say({"result": options.action(options)})
        return 0
    except RemoteError as error:
        say({"error": {"code": error.code, "message": " ".join(str(error).split())}})
        return EXIT_DATA
    except ImportError as error:
        say({"error": {"code": "UNAVAILABLE", "message": f"a package is missing: {error.name}"}})
        return EXIT_UNAVAILABLE
    except OSError as error:
        code = "NO_SPACE" if error.errno in (28, 122) else "FAILED"
        say({"error": {"code": code, "message": f"{error.filename or options.url}: {error.strerror or type(error).__name__}"}})
        return EXIT_DATA if code == "NO_SPACE" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
