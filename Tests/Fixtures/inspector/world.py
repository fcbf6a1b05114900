"""A server with a town's notes, written by replicas of the command `anabranch client`, and a browser that looks at it.

The data are real uploads: two devices write apart, without a network, and come back one after the other.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

NOTES = '/"notes"'
SCHEMA = [
    {"class": "Address", "kind": "embedded", "properties": [
        {"name": "street", "type": "string", "nullable": True}, {"name": "city", "type": "string", "nullable": True}]},
    {"class": "Person", "kind": "top-level", "key": {"name": "_id", "type": "string", "nullable": False}, "properties": [
        {"name": "name", "type": "string", "nullable": False},
        {"name": "age", "type": "int", "nullable": True},
        {"name": "address", "type": "link", "target": "Address", "nullable": True}]},
    {"class": "Note", "kind": "top-level", "key": {"name": "_id", "type": "int", "nullable": False}, "properties": [
        {"name": "title", "type": "string", "nullable": False},
        {"name": "done", "type": "bool", "nullable": False},
        {"name": "price", "type": "double", "nullable": True},
        {"name": "tags", "type": "string", "nullable": False, "collection": "list"},
        {"name": "author", "type": "link", "target": "Person", "nullable": True}]},
]
PEOPLE = [("anna", "Anna Lindqvist", 34, "Köln"), ("bert", "Bert Óskarsson", 51, "Reykjavík"),
          ("layla", "ليلى حداد", 28, "عمّان"), ("jürgen", "Jürgen Weiß", 63, "Straßburg")]
THINGS = ["milk", "oat milk", "bread", "Rechnung prüfen", "apples", "قائمة التسوق", "water the plants", "call the plumber",
          "return the library books", "Fahrrad reparieren", "book the train", "write to Bert"]


def wait_for(condition, what, seconds=30):
    """Waits until a condition holds; nothing sleeps longer than it takes."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# The ident of the user who may log in to the inspector.
ADMINISTRATOR = "5eed0000000000000000ad31"


class Server:
    """`anabranch serve` over a directory; a restart keeps its ports."""

    def __init__(self, program, folder, inspector="read-write", options=("--dev",)):
        self.options = list(options)
        self.program, self.folder, self.inspector = str(program), pathlib.Path(folder), inspector
        self.data = self.folder / "data"
        self.ports = free_port(), free_port()
        self.process = None
        self.start()

    def start(self):
        environment = {**os.environ, "ANABRANCH_INSPECTOR": self.inspector, "ANABRANCH_INSPECTOR_USERS": ADMINISTRATOR}
        self.process = subprocess.Popen(
            [self.program, "serve", *self.options, "--data", str(self.data), "--listen", f"127.0.0.1:{self.ports[0]}",
             "--admin-listen", f"127.0.0.1:{self.ports[1]}", "--log-level", "notice"],
            stdout=subprocess.PIPE, stderr=open(self.folder / "server.log", "a"), text=True, env=environment)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, (self.folder / "server.log").read_text())
        self.url = f"ws://127.0.0.1:{self.ports[0]}"
        self.pages = f"http://127.0.0.1:{self.ports[1]}"
        self.token = (self.data / "admin-token").read_text().strip()

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None

    def write(self, device, lines, path=NOTES, online=True, each=None):
        """Writes lines of an export into the replica of a device, and uploads them unless it is offline."""
        command = [self.program, "client", "write", "--data", str(self.folder / device), "--path", path]
        if online:
            command += ["--url", self.url, "--timeout", "300"]
        if each:
            command += ["--each", str(each)]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        run = subprocess.run(command, input=text, text=True, capture_output=True)
        assert run.returncode == 0, (command, run.stderr)

    def sync(self, device, path=NOTES):
        """Has a device upload what waits, and download."""
        run = subprocess.run(
            [self.program, "client", "read", "--data", str(self.folder / device), "--path", path, "--url", self.url, "--timeout", "300"],
            text=True, capture_output=True)
        assert run.returncode == 0, run.stderr


def note(number, **fields):
    return ["Note", {"int": str(number)}, fields]


def double(value):
    import struct
    return {"double": struct.pack(">d", value).hex().lstrip("0") or "0"}


def fill(server, notes=60, rounds=6):
    """People, their notes, and rounds in which two devices change the same notes apart."""
    lines = list(SCHEMA)
    for key, name, age, city in PEOPLE:
        lines.append(["Person", key, {
            "name": name, "age": {"int": str(age)}, "address": {"street": f"Street of {name.split()[0]}", "city": city}}])
    server.write("phone", lines)
    server.write("phone", [
        note(number, title=THINGS[number % len(THINGS)], done=number % 3 == 0, price=double(number * 1.25 + 0.1),
             tags={"list": ["home"] if number % 2 else ["home", "urgent"]},
             author={"link": ["Person", PEOPLE[number % len(PEOPLE)][0]]})
        for number in range(1, notes + 1)], each=max(1, notes // 6))
    server.sync("tablet")
    for turn in range(rounds):
        number = turn % 4 + 1
        server.write("tablet", [note(number, title=f"{THINGS[turn]} (tablet)", tags={"list": ["urgent", f"t{turn}"]})], online=False)
        server.write("tablet", [note(number + 10, done=True)], online=False)
        server.write("phone", [note(number, title=f"{THINGS[turn]} (phone)", tags={"list": ["shopping", f"p{turn}"]}),
                               note(number + 20, price=double(turn + 0.5))])
        server.sync("tablet")
        server.sync("phone")
    server.write("phone", [["Note", {"int": str(notes)}, None]])


class Browser:
    """Headless Chromium, which notes every request and every message of its console."""

    def __init__(self, width=1280, height=800, scheme="light"):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                         "--disable-background-networking", "--disable-component-update", "--no-first-run",
                         f"--window-size={width},{height}", "--lang=en"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService("/usr/bin/chromedriver")
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(30)
        self.scheme(scheme)
        self.size(width, height)

    def scheme(self, name, motion="no-preference"):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": name}, {"name": "prefers-reduced-motion", "value": motion}]})

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def quit(self):
        self.driver.quit()

    def until(self, condition, what, seconds=20):
        def tried(_):
            try:
                return condition()
            except (StaleElementReferenceException, WebDriverException):
                return False
        try:
            return WebDriverWait(self.driver, seconds, poll_frequency=0.03).until(tried)
        except Exception:
            raise AssertionError(f"{what}; the page says: {self.text()[:1500]!r}; console: {self.console()}")

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css="body"):
        # All text, whether it is in view or not.
        return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def says(self, text, css="main"):
        self.until(lambda: text in self.text(css), f"{css} does not say {text!r}")

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def console(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def open(self, url, page=None):
        self.driver.get(url)
        self.shown(page)

    def visit(self, address):
        """Goes to another page as a link does."""
        self.script("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", address)
        self.shown(address.split("?")[0])

    def shown(self, page=None):
        """Waits until a page is there as a whole."""
        def is_shown():
            main = self.script("const m = document.getElementById('main'); return [m.dataset.page, m.hasAttribute('aria-busy')]")
            return main[0] is not None and not main[1] and (page is None or main[0] == page)
        self.until(is_shown, f"the page {page or ''} is not shown")

    def log_in(self, server):
        self.open(server.pages + "/log-in", "/log-in")
        self.find("#token").send_keys(server.token)
        self.find("form.login button").click()
        self.shown("/")


def program_from(argument):
    return pathlib.Path(argument).resolve()


def path_query(path):
    from urllib.parse import quote
    return quote(path, safe="")


__all__ = ["ADMINISTRATOR", "Server", "Browser", "fill", "note", "double", "wait_for", "NOTES", "SCHEMA", "program_from", "path_query", "re"]
