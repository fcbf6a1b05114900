"""Measures the inspector over large files:  figures.py PATH-OF-ANABRANCH PATH-OF-ANABRANCH-LAB [OBJECTS [VERSIONS]]

Prints one JSON object. Times are in milliseconds; those of requests are of the whole request, the best and the median of
ten, and the server's own processor time. The last members are the goals that were missed: the exit status is 1 if one was.
Goals of what a browser does count in the best of three turns, since other programs of the machine take part in the others.
`scripts/nightly` runs it.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from world import SCHEMA, Browser, Server, double, note, program_from  # noqa: E402

TURNS = 3
# Three turns of a display with 60 a second are 50 ms, give or take what clocks differ.
FRAME = 51
# Scrolls for 240 frames, a little more than a screen each, and then by jumps over the whole table.
SCROLL = """
const done = arguments[0], view = document.querySelector('.viewport'), times = [];
let last = performance.now(), frame = 0;
const step = (now) => {
  times.push(now - last); last = now; frame += 1;
  view.scrollTop += frame < 240 ? 700 : view.scrollHeight / 97;
  if (view.scrollTop + view.clientHeight >= view.scrollHeight - 1) view.scrollTop = 0;
  if (frame < 480) requestAnimationFrame(step); else done(times.slice(2));
};
requestAnimationFrame(step);
"""
# Notes when the river is there, and the frame after that.
WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector('svg.whole path.water')) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.riverDrawn = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""


def main(program, lab, objects, versions):
    with tempfile.TemporaryDirectory(prefix="anabranch-inspector") as folder:
        # A log of small transactions of 20 clients, sealed as a server seals it.
        subprocess.run([lab, "bench", "explain", "--entries", str(versions), "--data", f"{folder}/data"], check=True, capture_output=True)
        # Nothing of it goes while it is looked at.
        options = ["--dev", "--history-generation-bytes", str(1 << 50)]
        server, figures = Server(program, folder, options=options), {"objects": objects, "versions": versions}
        missed = []

        def goal(name, value, limit):
            if value >= limit:
                missed.append(f"{name}: {value}, not below {limit}")

        def cpu():
            # That of the process has hundredths of a second only.
            threads = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
            return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e6

        def ask(path):
            start = time.perf_counter()
            request = urllib.request.Request(server.pages + path, headers={"Authorization": f"Bearer {server.token}"})
            with urllib.request.urlopen(request) as answer:
                body = json.load(answer)
            return body, (time.perf_counter() - start) * 1000

        def measure(name, path):
            # The first one finds nothing in memory.
            start = cpu()
            first, middle = ask(path)[1], cpu()
            times = [ask(path)[1] for _ in range(10)]
            figures[name] = {"first": round(first, 1), "first_server": round(middle - start), "best": round(min(times), 1),
                             "median": round(statistics.median(times), 1), "server": round((cpu() - middle) / 10, 1)}

        browser = None
        try:
            long = quote("/bench", safe="")
            # The first request of a process pays for what all others find, whatever it asks for.
            ask("/overview.json")
            measure("river", f"/river.json?path={long}")
            goal("the server's time for the first river", figures["river"]["first_server"], 50)
            goal("the server's time for further ones", figures["river"]["server"], 50)
            measure("history", f"/history.json?path={long}")
            measure("edits", f"/edits.json?path={long}")
            browser = Browser()
            browser.log_in(server)
            browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
            drawn = []
            for _ in range(TURNS):
                browser.open(f"{server.pages}/history?path={long}")
                drawn.append(round(browser.until(lambda: browser.script("return window.riverDrawn"), "no river")))
            figures["history_page"] = drawn
            goal("the page of the river", min(drawn), 500)
            # In several turns: a client waits some minutes at most until all is uploaded.
            for first in range(0, objects, 50_000):
                lines = [note(number, title=f"note {number % 977}", done=number % 3 == 0, price=double(number / 4))
                         for number in range(first, min(first + 50_000, objects))]
                server.write("many", [*SCHEMA, *lines], path='/"many"', each=10_000)
            many = quote('/"many"', safe="")
            table = f"/objects.json?path={many}&class=Note"
            start, steps, answer = time.perf_counter(), [], ask(table)
            steps.append(answer[1])
            while not answer[0]["complete"]:
                answer = ask(f"{table}&list={answer[0]['list']}&offset={answer[0]['count']}&limit=1")
                steps.append(answer[1])
            figures["table"] = {"count": answer[0]["count"], "requests": len(steps), "slowest": round(max(steps), 1),
                                "all": round((time.perf_counter() - start) * 1000)}
            measure("rows_in_the_middle", f"{table}&list={answer[0]['list']}&offset={objects // 2}")
            measure("files", "/files.json")
            measure("overview", "/overview.json")
            browser.open(f"{server.pages}/objects?path={many}&class=Note")
            browser.until(lambda: f"{objects:,} objects" in browser.text("main"), "the table is not whole", 300)
            browser.driver.set_script_timeout(120)
            figures["scrolling"] = []
            for _ in range(TURNS):
                frames = sorted(browser.driver.execute_async_script(SCROLL))
                figures["scrolling"].append({
                    "frames": len(frames), "median": round(frames[len(frames) // 2], 1), "p99": round(frames[len(frames) * 99 // 100], 1),
                    "slowest": round(frames[-1], 1), "above_50": sum(frame >= FRAME for frame in frames)})
            goal("the slowest frame of scrolling", min(turn["slowest"] for turn in figures["scrolling"]), FRAME)
        finally:
            if browser:
                browser.quit()
            server.stop()
        print(json.dumps({**figures, "missed": missed}))
        return 1 if missed else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[3:]]
    sys.exit(main(program_from(sys.argv[1]), program_from(sys.argv[2]), *(numbers + [1_000_000, 1_000_000][len(numbers):])))
