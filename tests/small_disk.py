"""A small disk, for tests that fill it."""

import contextlib
import subprocess


@contextlib.contextmanager
def small_disk(path, mib):
    """Mounts a file system of this size. Returns None if this user may not."""
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", path],
                             capture_output=True).returncode == 0
    try:
        yield path if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", path], check=True)


def fill(path):
    """Fills the disk with this file, while a job may take some of the room."""
    block = bytes(1 << 16)
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(block):
            pass
