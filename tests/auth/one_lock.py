"""The old design: one flock for readers and refreshers, held through the network request.

A holder has the lock for 20 s; ten starts poll it every 0.05 s and give up after 15 s. SCALE divides these times.
"""

import fcntl
import multiprocessing
import sys
import time


def take(path, limit):
    lock = open(path, "a+")
    deadline = time.monotonic() + limit
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.05 / scale)


def start(path, outcomes):
    outcomes.put(take(path, 15 / scale) is not None)


path, scale = sys.argv[1], float(sys.argv[2])
if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    outcomes = fork.Queue()
    held = take(path, 0)
    starts = [fork.Process(target=start, args=(path, outcomes)) for _ in range(10)]
    for process in starts:
        process.start()
    holds_until = time.monotonic() + 20 / scale
    read = sum(outcomes.get() for _ in starts)
    time.sleep(max(0, holds_until - time.monotonic()))
    held.close()
    for process in starts:
        process.join()
    print(f"{read} of {len(starts)} starts read, {len(starts) - read} died")
