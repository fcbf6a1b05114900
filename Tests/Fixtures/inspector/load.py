"""Measures what open inspectors cost a server under load:  load.py PATH-OF-ANABRANCH PATH-OF-ANABRANCH-LAB [PAIRS [SECONDS]]

Writers write to one file all the time. In one of each pair of short rounds five inspectors show the overview and one a
table of another file that changes every second: with `browsers` as last argument in real browsers, otherwise by the
requests that they make, since the browsers' own work on a machine of few cores would be measured, too. The two rounds of a
pair follow each other, now in one order and now in the other, so that what else the machine does falls on both alike; what
is compared is the ratio within a pair. What the inspectors cost by themselves is measured as well, without writers, where
little else takes part: the server's processor time in a second with them and without, in milliseconds.

Prints one JSON object: the medians of the ratios, each with the interval that has the true median in 19 of 20 cases; the
medians of both kinds of rounds: percentiles of acknowledgements in milliseconds, and the server's processor time for each
upload in microseconds; and `share`, the processor time of the inspectors as a part of what the writers take alone.
`scripts/nightly` runs it.
"""

import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from world import SCHEMA, Browser, Server, note, program_from  # noqa: E402

BUSY = '/"busy"'
B = quote(BUSY, safe="")


class Requests:
    """The requests of an open page, as often as it makes them."""

    def __init__(self, server):
        self.server, self.over = server, threading.Event()
        self.threads = [threading.Thread(target=self.overview) for _ in range(5)] + [threading.Thread(target=self.table)]
        for thread in self.threads:
            thread.start()

    def ask(self, path):
        request = urllib.request.Request(self.server.pages + path, headers={"Authorization": f"Bearer {self.server.token}"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def overview(self):
        while True:
            self.ask("/overview.json")
            if self.over.wait(5):
                return

    def table(self):
        shown = None
        while True:
            head = self.ask(f"/head.json?path={B}")["version"]
            if head != shown:
                shown = head
                self.ask(f"/objects.json?path={B}&class=Note&limit=100")
            if self.over.wait(1):
                return

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Browsers:
    """The same with six browsers."""

    def __init__(self, server):
        self.browsers = [Browser() for _ in range(6)]
        for number, browser in enumerate(self.browsers):
            browser.log_in(server)
            if number == 0:
                browser.open(f"{server.pages}/objects?path={B}&class=Note")

    def end(self):
        for browser in self.browsers:
            browser.quit()


def interval(values):
    """The median, and the order statistics between which the true one is with a probability of 95 %."""
    values, count = sorted(values), len(values)
    below, cumulated = 0, 0.5 ** count
    while below < count // 2 - 1 and cumulated + math.comb(count, below + 1) * 0.5 ** count <= 0.025:
        below += 1
        cumulated += math.comb(count, below) * 0.5 ** count
    return {"median": round(statistics.median(values), 3), "from": round(values[below], 3), "to": round(values[count - 1 - below], 3)}


def main(program, lab, pairs, seconds, company):
    with tempfile.TemporaryDirectory(prefix="anabranch-inspector") as folder:
        server = Server(program, folder)
        over, rounds = threading.Event(), []

        def keep_busy():
            number = 0
            while not over.wait(1):
                number += 1
                server.write("phone", [note(number % 500, title=f"turn {number}")], path=BUSY)

        def measure(is_watched):
            visitors = company(server) if is_watched else None
            try:
                run = subprocess.run(
                    [lab, "load", "writers", "--clients", "8", "--files", "1", "--seconds", str(seconds), "--bystanders", "0",
                     "--url", server.url, "--server-pid", str(server.process.pid)], capture_output=True, text=True)
            finally:
                if visitors:
                    visitors.end()
            assert run.returncode == 0, run.stderr
            report = json.loads(run.stdout.splitlines()[-1])
            acknowledged = report["latency_ms"]["acknowledged"]
            return {"p50": acknowledged["p50"], "p99": acknowledged["p99"], "count": acknowledged["count"],
                    "cpu_us": report["server"]["cpu_us_per_operation"]}
        def cpu():
            words = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(words[11]) + int(words[12])) * 1000 / os.sysconf("SC_CLK_TCK")

        def idle(is_watched):
            visitors = company(server) if is_watched else None
            try:
                time.sleep(1)  # Opening a page is not part of looking at it.
                start, before = time.monotonic(), cpu()
                time.sleep(2 * seconds)
                return (cpu() - before) / (time.monotonic() - start)
            finally:
                if visitors:
                    visitors.end()
        server.write("phone", [*SCHEMA, *[note(number, title="a note") for number in range(500)]], path=BUSY)
        writer = threading.Thread(target=keep_busy)
        writer.start()
        try:
            measure(False)  # What is slow only once.
            for pair in range(pairs):
                order = [False, True] if pair % 2 == 0 else [True, False]
                found = {is_watched: measure(is_watched) for is_watched in order}
                rounds.append((found[False], found[True]))
            quiet = {is_watched: statistics.median(idle(is_watched) for _ in range(3)) for is_watched in (False, True)}
        finally:
            over.set()
            writer.join()
            server.stop()
    figures = {f"{figure}_ratio": interval([watched[figure] / alone[figure] for alone, watched in rounds]) for figure in ("p50", "p99", "cpu_us")}
    for name, side in [("without", 0), ("with", 1)]:
        figures[name] = {figure: round(statistics.median(pair[side][figure] for pair in rounds), 1) for figure in rounds[0][0]}
    loaded = figures["without"]["count"] / seconds * figures["without"]["cpu_us"] / 1000
    figures["quiet_cpu_ms"] = {"without": round(quiet[False], 1), "with": round(quiet[True], 1)}
    figures["share"] = round((quiet[True] - quiet[False]) / loaded, 4)
    print(json.dumps({"pairs": pairs, "seconds": seconds, **figures}))


if __name__ == "__main__":
    words = [word for word in sys.argv[3:] if word != "browsers"]
    main(program_from(sys.argv[1]), program_from(sys.argv[2]), *([int(word) for word in words] + [20, 5][len(words):]),
         Browsers if "browsers" in sys.argv else Requests)
