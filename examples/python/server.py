"""A server's loop: requests of any length on several threads, and a backend that fails for a while.

    python examples/python/server.py [--small]
"""

import queue
import sys
import threading

import numpy as np

import pointsman
from pointsman import ops

outage = threading.Event()


@pointsman.op(name="example.spectrum", reference="numpy", check=True, rtol=1e-3, atol=1e-2)
def spectrum(signal):
    return np.abs(np.fft.fft(signal))


@spectrum.variant("ops")
def spectrum_ops(signal):
    return np.abs(ops.fft(signal))


@spectrum.variant("remote", min_size=1024)
def spectrum_remote(signal):
    """Stands for an accelerator that is not always there."""
    if outage.is_set():
        raise ConnectionError("the accelerator does not answer")
    return np.abs(ops.fft(signal))


def serve(requests, answers):
    while (signal := requests.get()) is not None:
        answers.append(float(spectrum(signal).max()))


def main(count):
    random = np.random.default_rng(1)
    requests, answers = queue.Queue(maxsize=64), []
    threads = [threading.Thread(target=serve, args=(requests, answers)) for _ in range(2)]
    [thread.start() for thread in threads]
    for i in range(count):
        (outage.set if count // 3 < i < count // 2 else outage.clear)()
        requests.put(random.standard_normal(int(2 ** random.uniform(4, 13))))
    [requests.put(None) for _ in threads]
    [thread.join() for thread in threads]
    print(f"{len(answers)} of {count} requests answered")
    print(spectrum.explain(random.standard_normal(4096)))
    print(spectrum.stats())


if __name__ == "__main__":
    main(300 if "--small" in sys.argv else 5000)
