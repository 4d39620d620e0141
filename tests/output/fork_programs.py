"""Runs Python programs in forks of a process that has imported transformers once.

The import takes seconds of processor time, most test programs take less than one. Each program still has its own process: it
sees no module, patch or loaded code of another.

Reads JSON lines {"arguments": [PROGRAM or "-c", ...], "stdout": FILE, "stderr": FILE} from standard input and answers each with
a line: the exit status.
"""

import json
import os
import runpy
import sys
import traceback

import torch

# Names that the programs use. transformers imports its modules only at the first use of their names.
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM  # noqa: F401


def run(arguments):
    """Runs a program like the interpreter with these arguments. Returns the exit status."""
    first, *others = arguments
    try:
        if first == "-c":
            sys.argv = ["-c", *others[1:]]
            exec(compile(others[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = list(arguments)
            sys.path[0] = os.path.dirname(os.path.abspath(first))
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


def run_in_fork(request):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
    torch.set_num_threads(1)
    status = run(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_in_fork(json.loads(line)), flush=True)
