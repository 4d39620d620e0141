"""Runs Python programs in forks of a process that has made its imports once.

    python fork_programs.py LISTENING_DESCRIPTOR IMPORTS

IMPORTS is Python code. An import of torch or transformers takes seconds of processor time, most test programs take less than
one. Each program still has its own process: it sees no module, patch or loaded code of another.

run_in_fork.py connects and hands over arguments, environment, limits, umask, standard files and working directory. The answer
is the exit status. Ends with its standard input.
"""

import contextlib
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import traceback


def run(arguments):
    """Runs a program like the interpreter with these arguments. Returns the exit status."""
    isolated = arguments[0] == "-I"
    first, *others = arguments[1:] if isolated else arguments
    try:
        if first == "-c":
            sys.argv = ["-c", *others[1:]]
            sys.path[:0] = [] if isolated else [""]
            exec(compile(others[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = [first, *others]
            sys.path[:0] = [] if isolated else [os.path.dirname(os.path.abspath(first))]
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run_as_asked(request, files):
    """Makes this process one of whoever asks, as far as a program can see it, and runs the program to its end."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.fchdir(files[3])
    for file in files:
        os.close(file)
    os.umask(request["umask"])
    for number, limits in request["limits"].items():
        resource.setrlimit(int(number), limits)
    os.environ.clear()
    os.environ.update(request["environment"])
    status = run(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve(connection):
    """Runs the program that comes over this connection, and ends it if whoever waits for it is gone."""
    size, files, _, _ = socket.recv_fds(connection, 8, 4)
    request = json.loads(connection.makefile("rb").read(int.from_bytes(size, "little")))
    program = os.fork()
    if not program:
        connection.close()
        run_as_asked(request, files)
    for file in files:
        os.close(file)
    if connection in select.select([connection, os.pidfd_open(program)], [], [])[0]:
        os.kill(program, signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d" % status)
    os._exit(0)


def wait_for_ended():
    """Their processor time becomes this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main(descriptor, imports):
    del sys.path[0]  # this folder
    gc.disable()  # see tests/output/conftest.py
    exec(imports, {})
    gc.freeze()
    gc.enable()
    listener = socket.socket(fileno=int(descriptor))
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            serve(connection)
        connection.close()
        wait_for_ended()
    wait_for_ended()


if __name__ == "__main__":
    main(*sys.argv[1:])
