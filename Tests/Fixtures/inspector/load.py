"""Measures what open inspectors cost a server under load:  load.py PATH-OF-ANABRANCH PATH-OF-ANABRANCH-LAB [ROUNDS [SECONDS]]

Writers write to one file all the time. In every other round five inspectors show the overview and one a table of another
file that changes every second: with `browsers` as last argument in real browsers, otherwise by the requests that they
make, since the browsers' own work on a machine of few cores would be measured, too. Prints one JSON object: medians of
both kinds of rounds, of the percentiles of acknowledgements in milliseconds and of the server's processor time for each
upload in microseconds. `scripts/test` does not run it.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
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


def main(program, lab, rounds, seconds, company):
    with tempfile.TemporaryDirectory(prefix="anabranch-inspector") as folder:
        server = Server(program, folder)
        over, rounds_of = threading.Event(), {"without": [], "with": []}

        def keep_busy():
            number = 0
            while not over.wait(1):
                number += 1
                server.write("phone", [note(number % 500, title=f"turn {number}")], path=BUSY)
        server.write("phone", [*SCHEMA, *[note(number, title="a note") for number in range(500)]], path=BUSY)
        writer = threading.Thread(target=keep_busy)
        writer.start()
        try:
            for turn in range(2 * rounds):
                visitors = company(server) if turn % 2 else None
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
                rounds_of["with" if visitors else "without"].append({
                    "p50": acknowledged["p50"], "p99": acknowledged["p99"], "count": acknowledged["count"],
                    "cpu_us": report["server"]["cpu_us_per_operation"]})
        finally:
            over.set()
            writer.join()
            server.stop()
    figures = {name: {figure: round(statistics.median(each[figure] for each in found), 1) for figure in found[0]}
               for name, found in rounds_of.items()}
    print(json.dumps({"rounds": rounds, "seconds": seconds, **figures, "all": rounds_of}))


if __name__ == "__main__":
    words = [word for word in sys.argv[3:] if word != "browsers"]
    main(program_from(sys.argv[1]), program_from(sys.argv[2]), *([int(word) for word in words] + [5, 20][len(words):]),
         Browsers if "browsers" in sys.argv else Requests)
