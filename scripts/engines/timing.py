"""The protocol between scripts/speed.py and the program that holds a model in an engine.

The program prints {"resident_bytes": n} when the model is loaded. For each line of standard input, {"prompt": tokens, "new": tokens},
it prints {"seconds": s, "resident_bytes": n}: how long the engine takes to read a prompt of random tokens and to generate so many new
ones. In place of either it prints {"refused": why}, and ends. The end of standard input ends it too.
"""

import json
import os
import random
import sys
import time

THREADS = int(os.environ.get("DOTRESIZE_SPEED_THREADS", "1"))


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as sizes:
        return int(sizes.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def say(**document):
    print(json.dumps(document), flush=True)


def refuse(error):
    say(refused=" ".join(f"{type(error).__name__}: {error}".split())[:300])


def random_tokens(count, vocabulary, seed):
    """Other tokens at each call: an engine may keep those of a prompt that it has seen."""
    return random.Random(seed).choices(range(vocabulary), k=count)


def serve(load):
    """load() returns generate(tokens, new), which generates `new` tokens after the prompt, and the size of the vocabulary."""
    try:
        generate, vocabulary = load()
    except Exception as error:  # engines throw many kinds
        refuse(error)
        return
    say(resident_bytes=resident_bytes())
    for number, line in enumerate(sys.stdin):
        request = json.loads(line)
        tokens = random_tokens(request["prompt"], vocabulary, number)
        begin = time.perf_counter()
        try:
            generate(tokens, request["new"])
        except Exception as error:
            refuse(error)
            return
        say(seconds=time.perf_counter() - begin, resident_bytes=resident_bytes())
