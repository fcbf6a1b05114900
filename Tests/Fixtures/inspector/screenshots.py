"""Takes pictures of the main pages:  screenshots.py PATH-OF-ANABRANCH FOLDER"""

import pathlib
import subprocess
import sys
import tempfile
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from world import NOTES, SCHEMA, Browser, Server, fill, note, path_query, program_from, wait_for  # noqa: E402

P = path_query(NOTES)
PAGES = {
    "overview": ("/", "light", "Serving"),
    "objects": (f"/objects?path={P}&class=Note", "light", "objects"),
    "object": (f"/object?path={P}&class=Note&key=" + quote('{"int":"2"}'), "light", "versions changed it"),
    "history": (f"/history?path={P}", "light", "An arm leaves"),
    "version": (f"/version?path={P}&version=22", "light", "Both set the value"),
    "diff": (f"/diff?path={P}&from=18", "dark", "differ"),
}


def world(program, place, browser, server):
    """Opens a world that plays, in the middle of what goes wrong."""
    recording = pathlib.Path(place) / "world.jsonl"
    subprocess.run([pathlib.Path(program).with_name("anabranch-lab"), "simulate", "--seed", "7", "--record", recording], check=True)
    browser.scheme("light")
    browser.open(f"{server.pages}/world")
    browser.find("input[type=file]").send_keys(str(recording))
    browser.says("The world of seed 7")
    browser.script("const s = document.querySelector('.world > input[type=range]'); s.value = s.max * 0.4; s.dispatchEvent(new Event('input'))")
    browser.until(lambda: "at=" in browser.driver.current_url, "the place is not part of the address")


def save(browser, picture):
    browser.driver.save_screenshot(str(picture))
    subprocess.run(["pngquant", "--force", "--strip", "--ext", ".png", "64", str(picture)], check=True)


def run(program, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="anabranch-inspector") as place:
        server = Server(program, place)
        browser = None
        try:
            fill(server)
            browser = Browser(1200, 720)
            browser.log_in(server)
            # Plots of a few minutes: other devices write meanwhile, into a file of their own.
            for turn in range(20):
                lines = list(SCHEMA) if turn == 0 else []
                server.write("watch", lines + [note(number, title="beat") for number in range(turn * turn)], path='/"pulse"', each=7)
                wait_for(lambda: browser.script(
                    "return fetch('/overview.json').then(async (r) => (await r.json()).times.length)") > turn, "no sample", 60)
            for name, (address, scheme, text) in PAGES.items():
                browser.scheme(scheme)
                browser.open(server.pages + address)
                browser.says(text)
                save(browser, folder / f"{name}.png")
            world(program, place, browser, server)
            save(browser, folder / "world.png")
        finally:
            if browser:
                browser.quit()
            server.stop()


if __name__ == "__main__":
    run(program_from(sys.argv[1]), sys.argv[2])
