"""Measures the inspector over large files:  figures.py PATH-OF-ANABRANCH [OBJECTS [VERSIONS]]

Prints one JSON object. Times are in milliseconds; those of requests are of the whole request, the best and the median of
ten. `scripts/test` does not run it.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time
import urllib.request
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from world import SCHEMA, Browser, Server, double, note, program_from  # noqa: E402

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


def main(program, objects, versions):
    with tempfile.TemporaryDirectory(prefix="anabranch-inspector") as folder:
        server, figures = Server(program, folder), {"objects": objects, "versions": versions}

        def ask(path):
            start = time.perf_counter()
            request = urllib.request.Request(server.pages + path, headers={"Authorization": f"Bearer {server.token}"})
            with urllib.request.urlopen(request) as answer:
                body = json.load(answer)
            return body, (time.perf_counter() - start) * 1000

        def measure(name, path):
            times = [ask(path)[1] for _ in range(10)]
            figures[name] = {"best": round(min(times), 1), "median": round(statistics.median(times), 1)}

        browser = None
        try:
            lines = [*SCHEMA, *[note(number, title=f"note {number % 977}", done=number % 3 == 0, price=double(number / 4))
                                for number in range(objects)]]
            server.write("many", lines, path='/"many"', each=10_000)
            server.write("long", [*SCHEMA, *[note(number % 1_000, title=str(number)) for number in range(versions)]], path='/"long"', each=1)
            many, long = quote('/"many"', safe=""), quote('/"long"', safe="")
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
            measure("river", f"/river.json?path={long}")
            measure("history", f"/history.json?path={long}")
            measure("edits", f"/edits.json?path={long}")
            browser = Browser()
            browser.log_in(server)
            browser.open(f"{server.pages}/objects?path={many}&class=Note")
            browser.until(lambda: f"{objects:,} objects" in browser.text("main"), "the table is not whole", 300)
            browser.driver.set_script_timeout(120)
            frames = sorted(browser.driver.execute_async_script(SCROLL))
            figures["scrolling"] = {"frames": len(frames), "median": round(frames[len(frames) // 2], 1),
                                    "p99": round(frames[len(frames) * 99 // 100], 1), "slowest": round(frames[-1], 1)}
            browser.open(f"{server.pages}/history?path={long}")
            browser.until(lambda: browser.all("svg.whole path.water"), "no river")
            figures["history_page"] = round(browser.script("return performance.now()"))
        finally:
            if browser:
                browser.quit()
            server.stop()
        print(json.dumps(figures))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    main(program_from(sys.argv[1]), *(numbers + [1_000_000, 20_000][len(numbers):]))
