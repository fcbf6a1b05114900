"""Shared by the scripts of this folder: a server with a file space, and commands on it."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import urllib.request

APP, PARTITION = "my-app", "files"
CONFIGURATION = """\
listen: 127.0.0.1:{port}
admin-listen: off
rules: everybody
data: {data}
log-level: warning
apps:
  {app}:
    providers: [anon-user]
    sync: partition
    files: {{quota-bytes: 1000000000000}}
"""


def memory(pid):
    """The memory that a process has for itself, without the pages of its program, in KiB; 0 if it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


class Server:
    """`anabranch serve` on a loopback port, with data that stay when it is killed."""

    def __init__(self, program, folder, environment=None):
        self.program, self.folder, self.port = program, pathlib.Path(folder), 0
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = None
        self.start(environment)

    def start(self, environment=None):
        """Starts it on the port that it had, so that its clients find it again."""
        file = self.folder / "anabranch.yaml"
        file.write_text(CONFIGURATION.format(port=self.port, data=self.folder / "data", app=APP))
        self.process = subprocess.Popen(
            [self.program, "serve", "--config", file], stdout=subprocess.PIPE, text=True,
            stderr=open(self.folder / "log", "a"), env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            return False
        self.port = int(line.rsplit(":", 1)[1])
        return True

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def token(self):
        """A token of a new user."""
        url = f"http://{self.address}/api/client/v2.0/app/{APP}/auth/providers/anon-user/login"
        request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["access_token"]


def command(program, server, device, *arguments, partition=PARTITION):
    """The command line of `anabranch files` for a device, which is a folder."""
    name, *rest = arguments
    return [
        program, "files", name, *rest, "--data", device, "--path", f'{APP}/"{partition}"',
        "--url", f"ws://{server.address}", "--anonymous", "--timeout", "120",
    ]


def faults(place):
    """The library that ends a program at one of its writes."""
    return library("faults", place)


def library(name, place):
    """A library that is preloaded into programs: NAME.c, compiled into a folder."""
    target = pathlib.Path(place) / f"{name}.so"
    source = pathlib.Path(__file__).with_name(f"{name}.c")
    subprocess.run(["clang", "-O1", "-shared", "-fPIC", "-o", target, source, "-ldl"], check=True)
    return target


def folder():
    """A new folder, removed at the end."""
    return tempfile.TemporaryDirectory(prefix="anabranch-files-")


def run(line, *others, **options):
    """Runs a command to its end.
    Returns the seconds that it took, and the most memory that it and each of the other processes had, in KiB."""
    start = time.monotonic()
    process = subprocess.Popen(line, **options)
    most = [0] * (1 + len(others))
    while process.poll() is None:
        most = [max(pair) for pair in zip(most, map(memory, (process.pid, *others)))]
        time.sleep(0.01)
    if process.returncode != 0:
        raise SystemExit(f"{line[0]} ends with {process.returncode}: {' '.join(map(str, line))}")
    return time.monotonic() - start, most
