"""The cache of what remote_files.py fetches, and how a model or file gets into it."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from remote_stores import CHUNK, CONFIG, INDEX, MOST_INDEX_BYTES, SINGLE, HubStore, Meter, Moved, RemoteError, for_all, sha256_of, store_of

MOST_FILES = 2_000
SPARE_BYTES = 64 << 20
PATIENCE_S = float(os.environ.get("DOTRESIZE_REMOTE_PATIENCE", "120"))  # without a byte
COMPANIONS = {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "vocab.json",
              "merges.txt", "added_tokens.json", "chat_template.jinja", "chat_template.json", "generation_config.json", "tekken.json",
              "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json", "image_processor_config.json"}
ADAPTER = "adapter_config.json"  # fetched so that the model is refused as it would be on this machine


class Cache:
    """DIR/entries/KEY/NAME: a model or file, whole. DIR/partial/KEY: one that is being fetched. Who uses an entry holds a shared lock on
    its folder KEY, who fetches one the lock DIR/locks/KEY."""

    def __init__(self, root, size):
        self.root, self.size = Path(root), size
        for name in ("entries", "partial", "locks"):
            (self.root / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def lock(self, name):
        fd = os.open(self.root / "locks" / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def find(self, key, name):
        entry = self.root / "entries" / key
        if not (entry / name).exists():
            return None
        os.utime(entry)
        return entry / name

    def make_room(self, key, needed):
        """Removes what was not used for longest, until `needed` more bytes fit into the cache and onto its disk. Nothing that is in use."""
        with self.lock("cache"):
            taken, removable = 0, []
            for folder in [*(self.root / "entries").iterdir(), *(self.root / "partial").iterdir()]:
                if folder.name == key:
                    continue
                size = sum(file.lstat().st_size for file in folder.rglob("*"))
                taken += size
                removable.append((folder.stat().st_mtime, folder, size))
            for _, folder, size in sorted(removable):
                if taken + needed <= self.size and shutil.disk_usage(self.root).free >= needed + SPARE_BYTES:
                    break
                if self.remove_unused(folder):
                    taken -= size
            if taken + needed > self.size:
                raise RemoteError("NO_SPACE", f"{needed} bytes do not fit into the cache of {self.size} bytes, of which {taken} are in use")
            free = shutil.disk_usage(self.root).free
            if free < needed + SPARE_BYTES:
                raise RemoteError("NO_SPACE", f"the disk of the cache has {free} bytes, and {needed} are needed")

    def remove_unused(self, folder):
        is_entry = folder.parent.name == "entries"
        fd = os.open(folder if is_entry else self.root / "locks" / folder.name, os.O_RDONLY | (0 if is_entry else os.O_CREAT) | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(fd)


def verified(path, remote, sha256):
    checks = [remote.check, ("sha256", sha256) if sha256 else None]
    for algorithm, digest in filter(None, checks):
        if algorithm == "git":
            found = hashlib.sha1(b"blob %d\0" % remote.size, usedforsecurity=False)
            with open(path, "rb") as file:
                while block := file.read(CHUNK):
                    found.update(block)
            found = found.hexdigest()
        else:
            found = sha256_of(path)
        if found != digest:
            path.unlink()
            raise RemoteError("INVALID", f"{remote.name}: has other bytes than its {algorithm} hash says")


def read_more(store, remote, path, meter):
    """Appends what the file lacks, and returns its SHA-256 if the store says one. Throws Moved if it breaks off."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "wb") as file:
        offset = file.seek(0, os.SEEK_END)
        try:
            with store.open(remote, offset) as (blocks, sha256):
                for block in blocks:
                    if meter.stopped.is_set():
                        raise RemoteError("NETWORK", f"{store.url}: another file has failed")
                    if offset + len(block) > remote.size:
                        raise RemoteError("INVALID", f"{remote.name}: has more than its {remote.size} bytes")
                    file.write(block)
                    offset += len(block)
                    meter.add(len(block))
        except RemoteError as error:
            if error.code != "NETWORK":
                raise
            raise Moved(str(error)) from None
        if offset < remote.size:
            raise Moved(f"{store.url}: {remote.name} breaks off after {offset} of {remote.size} bytes")
        file.flush()
        os.fsync(file.fileno())
        return sha256


def fetch_file(store, remote, folder, meter):
    path = folder / remote.name
    if path.is_file() and path.stat().st_size == remote.size:
        return
    part = folder / f"{remote.name}.part"
    pause = 0.5
    while True:
        before = meter.last
        try:
            if remote.size == 0:
                part.touch(mode=0o600)
                sha256 = None
            else:
                sha256 = read_more(store, remote, part, meter)
            break
        except Moved as error:
            if meter.stopped.is_set() or time.monotonic() - meter.last > PATIENCE_S:
                raise RemoteError("NETWORK", str(error)) from None
            pause = 0.5 if meter.last > before else min(15.0, 2 * pause)
            time.sleep(pause)
    verified(part, remote, sha256)
    part.chmod(0o644)
    part.rename(path)


def parts_of_model(store, found, folder, kind):
    """The files that a model needs: never code, nor weights in other formats."""
    if CONFIG not in found:
        raise RemoteError("NOT_FOUND", f"{store.url}: has no {CONFIG}")
    wanted = [found[name] for name in sorted(found.keys() & (COMPANIONS | {CONFIG, ADAPTER}))]
    if kind == "config":
        return wanted
    if SINGLE not in found and INDEX in found:  # the order in which the weights are looked for
        if found[INDEX].size > MOST_INDEX_BYTES:
            raise RemoteError("INVALID", f"{store.url}: {INDEX} is larger than {MOST_INDEX_BYTES} bytes")
        fetch_file(store, found[INDEX], folder, Meter())
        try:
            shards = set(json.loads((folder / INDEX).read_bytes())["weight_map"].values())
        except (ValueError, KeyError, AttributeError, TypeError):
            raise RemoteError("INVALID", f"{store.url}: {INDEX} is no index of weights") from None
        wanted.append(found[INDEX])
    else:
        shards = {SINGLE}
    for name in sorted(map(str, shards)):
        if not name.endswith(".safetensors") or name not in found:
            raise RemoteError("NOT_FOUND", f"{store.url}: has no {name[:200]!r}, which its weights lie in")
        wanted.append(found[name])
    return wanted


def revision_of(wanted, commit):
    """The commit, or else a hash of all names, tags and sizes: another content has another one."""
    if commit:
        return commit
    tags = json.dumps(sorted((remote.name, remote.tag, remote.size) for remote in wanted))
    return hashlib.sha256(tags.encode()).hexdigest()[:40]


def fetch(options):
    store = store_of(options.url)
    single = options.kind == "file"
    if isinstance(store, HubStore) and single != bool(store.path):
        raise RemoteError("INVALID", f"{options.url}: a {'file' if single else 'model'} is named as "
                          f"hf://OWNER/NAME[@REVISION]{'/FILE' if single else ''}")
    found, commit = store.list_file() if single else store.list()
    everything = revision_of(found.values(), commit)
    key = hashlib.sha256(json.dumps([options.kind, store.place, everything]).encode()).hexdigest()[:40]
    name = next(iter(found)) if single else (store.repo if isinstance(store, HubStore) else store.key).rpartition("/")[2]
    cache = Cache(options.cache, options.cache_size)
    with cache.lock(key):  # whoever else wants it waits, and finds it
        path = cache.find(key, name)
        if path is None:
            partial = cache.root / "partial" / key
            folder = partial if single else partial / name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            bring(store, found, folder, cache, key, options.kind)
            os.replace(partial, cache.root / "entries" / key)
            path = cache.find(key, name)
    return {"path": str(path), "revision": everything}


def bring(store, found, folder, cache, key, kind):
    wanted = list(found.values()) if kind == "file" else parts_of_model(store, found, folder, kind)
    if len(wanted) > MOST_FILES:
        raise RemoteError("INVALID", f"{store.url}: {len(wanted)} files are more than {MOST_FILES}")
    total = sum(remote.size for remote in wanted)
    done = sum(file.stat().st_size for file in folder.iterdir())
    cache.make_room(key, max(0, total - done))
    meter = Meter()
    meter.begin(done, total)
    try:
        for_all(wanted, lambda remote: fetch_file(store, remote, folder, meter), meter)
    finally:
        meter.end()
