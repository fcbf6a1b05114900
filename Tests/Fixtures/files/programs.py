"""Lets programs work in two mirrored folders, in one at a time:  programs.py PATH-OF-ANABRANCH

Git commits, changes branches and collects garbage; archives are unpacked over one another; files are edited in place,
and saved under another name that is then given up; trees are copied, moved and removed while others are written; and the
mirror of a writer is killed again and again. After each of them both folders have to be equal: `diff -r`. Since there is
one writer at a time, nothing may become a conflict copy, and what was removed has to stay so. The exit status is 1 if
something else happens.
"""

import os
import pathlib
import subprocess
import sys
import time

from space import Server, command, folder

GIT = "git -c user.name=a -c user.email=a@example.com -c core.fileMode=false"
STEPS = [
    ("one", "git init -q g && cd g && for n in 1 2 3 4 5 6; do mkdir d$n && seq $n 50 > d$n/f; done"
            f" && {GIT} add . && {GIT} commit -qm one"),
    ("one", f"cd g && git checkout -qb other && git rm -qr d1 && sed -i s/4/four/ */f && {GIT} commit -qam two"
            f" && git checkout -q - && echo more >> d2/g && {GIT} add . && {GIT} commit -qm three"),
    ("two", "cd g && git checkout -q -f other && git gc -q --prune=now"),
    ("two", "cp -a g copy && tar cf t.tar g && rm -rf copy/d2 && tar xf t.tar -C copy --strip-components=1"),
    ("one", "mv copy moved && for n in $(seq 20); do echo $n >> moved/log; mkdir -p moved/n$n/m; done"),
    ("two", "for n in $(seq 40); do echo $n > busy; sleep 0.02; done &"
            " find moved -depth | while read -r name; do rm -d \"$name\"; sleep 0.002; done; wait"),
    ("two", "test ! -e moved"),
    ("one", "for n in $(seq 30); do echo $n >> log; echo $n > .new && mv .new saved; sleep 0.03; done"),
    ("two", "echo two >> log; echo two > saved"),
]


def main():
    program = os.path.abspath(sys.argv[1])
    with folder() as place:
        place = pathlib.Path(place)
        server, mirrors = Server(program, place / "server"), {}
        trees = {name: place / name / "tree" for name in ("one", "two")}

        def start(name):
            line = command(program, server, place / name, "mirror", trees[name])
            mirrors[name] = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=open(place / name / "log", "a"))

        def kill(name):
            mirrors[name].kill()
            mirrors[name].wait()

        def difference():
            """The differences that remain after a while, and conflict copies."""
            text, end, calm = "", time.monotonic() + 120, 0
            while calm < 5 and time.monotonic() < end:
                time.sleep(0.2)
                done = subprocess.run(["diff", "-r", *trees.values()], capture_output=True, text=True, errors="replace")
                text, calm = done.stdout + done.stderr, calm + 1 if done.returncode == 0 else 0
            return text + "".join(f"{path}\n" for path in trees["one"].rglob("*(*"))

        try:
            for name in trees:
                trees[name].mkdir(parents=True)
                start(name)
            for name, line in STEPS:
                subprocess.run(["bash", "-c", f"set -e; {line}"], cwd=trees[name], check=True)
                text = difference()
                if text:
                    print(f"{line}:\n{text[:2000]}")
                    return False
            # A writer that does not care whether its mirror lives.
            writer = subprocess.Popen(
                ["bash", "-c", "while true; do date +%N >> log; date +%N > .new; mv .new saved; sleep 0.01; done"],
                cwd=trees["one"])
            for number in range(12):
                time.sleep(0.1 + number % 4 / 4)
                kill("one")
                start("one")
            writer.kill()
            writer.wait()
            text = difference()
            print(text[:2000])
            return not text
        finally:
            for mirror in mirrors.values():
                mirror.kill()
            server.kill()


sys.exit(0 if main() else 1)
