"""Faults of test_chaos.py that meet disks and files: they are full, read-only or damaged."""

import contextlib
import errno
import os
import random
import subprocess

CACHE = "tokens/.dotresize-cache"  # of the state directory
JUNK_BYTES = 8 << 20


def fill(disk):
    """Fills the disk. Returns the file that takes the room."""
    path = disk / "taken-by-others"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        room = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_frsize))
        while file.write(bytes(4096)):
            pass
    return path


def fill_disk(faults, disk, point):
    if os.statvfs(disk).f_flag & os.ST_RDONLY:
        return None
    faults.witness.disk_is_full(True)
    taken = fill(disk)

    def free():
        taken.unlink(missing_ok=True)
        faults.witness.disk_is_full(False)

    faults.end_later(point.lasts, free)
    return str(disk)


def fill_state(faults, point):
    return fill_disk(faults, faults.server.state, point)


def fill_output(faults, point):
    return fill_disk(faults, faults.disk, point)


def remount(disk, how):
    return subprocess.run(["mount", "-o", f"remount,{how}", disk], capture_output=True).returncode == 0


def remount_output(faults, point):
    """Makes the disk of some outputs read-only."""
    full = (faults.disk / "taken-by-others").exists()
    with faults.witness.lock:
        needed = any(order.kind == "disk" and order.is_in(point.stage) for order in faults.witness.unfinished())
    if full or not needed or os.statvfs(faults.disk).f_flag & os.ST_RDONLY:
        return None
    faults.witness.disk_is_full(True)
    done = remount(faults.disk, "ro")  # not while a file is open for writing
    if done:
        faults.witness.disk_is_read_only()

    def restore():
        assert remount(faults.disk, "rw")
        faults.witness.disk_is_full(False)

    if done:
        faults.end_later(point.lasts, restore)
    else:
        faults.witness.disk_is_full(False)
    return str(faults.disk) if done else None


def flip_bit(path, random_):
    """Flips a bit of a file, or appends a byte to an empty one. Returns False if it is gone, or if another fault has made its disk
    read-only."""
    try:
        file = path.open("r+b", buffering=0)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EROFS):
            return False
        raise
    with file:
        place = random_.randrange(max(1, path.stat().st_size))
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([(byte or b"0")[0] ^ 1 << random_.randrange(8)]))
        return True


def flip_journal(faults, point):
    found = faults.unfinished(
        point.choice,
        lambda order: [] if order.partial.is_symlink() else sorted((order.partial / "journal").glob("*.*")),
    )
    if not found:
        return None
    order, path = found
    random_ = random.Random(point.number)
    faults.witness.tampered_with(order)
    if not flip_bit(path, random_):  # the job is done with it
        return None
    return f"{path.name} of {order.id}" + (f", {faults.kill_job(order.id)}" if random_.random() < 0.5 else "")


def damage_cache(faults, point):
    """Damages kept tokens that have their hash, or the hash. No job may notice it."""
    seals = sorted((faults.server.state / CACHE).glob("*.sha256"))
    files = [path for seal in seals for path in (seal, seal.with_suffix("")) if path.exists()]
    if not files:
        return None
    victim = files[int(point.choice * len(files))]
    return victim.name if flip_bit(victim, random.Random(point.number)) else None


def fill_cache(faults, point):
    """Puts more files into the cache of tokens than it may keep. The oldest are to be removed first."""
    cache = faults.server.state / CACHE
    room = os.statvfs(faults.server.state)
    if not cache.exists() or room.f_bavail * room.f_frsize < 8 * JUNK_BYTES:
        return None
    for number in range(3):
        junk = cache / f"junk-{point.number}-{number}.safetensors"
        junk.write_bytes(os.urandom(1024) * (JUNK_BYTES >> 10))
        if point.choice < 0.5:
            os.utime(junk, (number, number))
    return f"{3 * JUNK_BYTES >> 20} MiB of {'old' if point.choice < 0.5 else 'new'} files"
