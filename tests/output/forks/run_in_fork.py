"""Runs a Python program in a fork of the process that listens at a socket (fork_programs.py).

    python run_in_fork.py SOCKET [-I] PROGRAM|-c CODE [ARGUMENT...]

It imports little: its own start takes a hundredth of a second.
"""

import json
import os
import resource
import signal
import socket
import sys


def main(path, *arguments):
    umask = os.umask(0)
    os.umask(umask)
    limits = {getattr(resource, name): resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
    request = {"arguments": arguments, "environment": dict(os.environ), "limits": limits, "umask": umask}
    content = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [len(content).to_bytes(8, "little")], [0, 1, 2, os.open(".", os.O_RDONLY)])
        server.sendall(content)
        answer = server.recv(16)
    if not answer:
        sys.exit("the process that forks for Python programs has ended")
    status = int(answer)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
