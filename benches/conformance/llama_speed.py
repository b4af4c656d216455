"""Measures the speed of llama.cpp as a library in this process, without a server's overhead.

    python llama_speed.py MODEL THREADS

Each line on stdin is `PROMPT_TOKENS DECODE_TOKENS`. The response is a JSON line with the seconds for the prompt and for
greedy decoding of that many tokens. An empty line ends the program.
"""

import json
import sys
import time

import llama_cpp
import numpy


def measure(model: llama_cpp.Llama, prompt_tokens: int, decode_tokens: int) -> dict:
    model.reset()
    # The time does not depend on the choice of tokens.
    prompt = [1000 + 7 * index % 20000 for index in range(prompt_tokens)]
    started = time.perf_counter()
    model.eval(prompt)
    read = time.perf_counter()
    for _ in range(decode_tokens):
        model.eval([int(numpy.argmax(model.scores[model.n_tokens - 1 if model._logits_all else -1]))])
    return {"prompt": read - started, "decode": time.perf_counter() - read}


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    model = llama_cpp.Llama(path, n_ctx=4096, n_threads=threads, n_threads_batch=threads, verbose=False)
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        prompt_tokens, decode_tokens = map(int, line.split())
        print(json.dumps(measure(model, prompt_tokens, decode_tokens)), flush=True)


if __name__ == "__main__":
    main()
