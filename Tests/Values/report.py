"""How a part says that something is wrong, and how far it is."""
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# Steps of this many seconds are told.
STEP = 5


class Failure(Exception):
    def __init__(self, seed, what):
        super().__init__(what)
        self.seed = seed


def each(what, work, cases):
    """What the work makes of each case, a few at a time: server and client take turns, and neither is to wait."""
    results, told = [], time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(work, cases):
            results.append(result)
            if time.monotonic() - told > STEP:
                told = time.monotonic()
                tell(f"{len(results)} of {len(cases)} {what}")
    return results


def tell(what):
    print(f"       {what}", file=sys.stderr, flush=True)
