"""Holds a GGUF file in llama.cpp for scripts/speed.py (timing.py): timed_llama_cpp.py FILE.gguf CONTEXT"""

import sys

import llama_cpp
from timing import THREADS, serve


def load():
    engine = llama_cpp.Llama(sys.argv[1], n_ctx=int(sys.argv[2]), n_threads=THREADS, n_threads_batch=THREADS, verbose=False)

    def generate(tokens, new):
        engine.reset()
        engine.eval(tokens)
        for token in tokens[: new - 1]:  # which token is new does not matter: the package's sampling takes longer than the engine
            engine.eval([token])

    return generate, engine.n_vocab()


serve(load)
