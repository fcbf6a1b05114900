"""Mirrors a large folder that changes as under rsync:  churn.py PATH-OF-ANABRANCH [FILES [ROUNDS [SEED]]]

Two `anabranch files mirror` run all the time, each with a folder of its own. A source tree of FILES files changes in
rounds: a hundredth of it is edited, created, renamed or removed; then it is copied into one of the folders as rsync does
it, each file under another name beside its place, flushed and renamed, and what is gone from the source is removed. After
each round both folders have to become equal to the source: `diff -r`. Prints a JSON object with the seconds that the
first copy and each round took until then. The exit status is 1 if they do not become equal.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from space import Server, command, folder


def copy(source, target):
    """As rsync without options does it: by size and time, with temporary names."""
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        if path.is_dir():
            there.mkdir(exist_ok=True)
            continue
        before = path.stat()
        if there.exists() and (there.stat().st_size, there.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns):
            continue
        draft = there.with_name(f".{there.name}.{random.randrange(1 << 30):x}")
        shutil.copy2(path, draft)
        draft.rename(there)
    for path in sorted(target.rglob("*"), reverse=True):
        if not (source / path.relative_to(target)).exists():
            path.rmdir() if path.is_dir() else path.unlink()


def change(source, count, chance):
    files = [path for path in source.rglob("*") if path.is_file()]
    for number in range(count):
        action, path = chance.randrange(4), chance.choice(files)
        if not path.exists():
            continue
        if action == 0:
            path.write_text(f"edited {chance.random()}")
        elif action == 1:
            path.with_name(f"new {number} {chance.random()}").write_text("new")
        elif action == 2:
            path.rename(path.with_name(f"renamed {number} {chance.random()}"))
        else:
            path.unlink()


def main():
    program = os.path.abspath(sys.argv[1])
    count, rounds, seed = (int(text) for text in (sys.argv[2:] + ["10000", "3", "1"][len(sys.argv) - 2:])[:3])
    chance = random.Random(seed)
    with folder() as place:
        place = pathlib.Path(place)
        server, source = Server(program, place / "server"), place / "source"
        for number in range(count):
            path = source / f"{number % 100}" / f"file {number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"content {number}\n")
        mirrors = []
        for name in ("one", "two"):
            (place / name / "tree").mkdir(parents=True)
            line = command(program, server, place / name, "mirror", place / name / "tree")
            mirrors.append(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=open(place / name / "log", "w")))
        seconds, isEqual = [], True
        for turn in range(rounds + 1):
            if turn:
                change(source, max(1, count // 100), chance)
            start = time.monotonic()
            copy(source, place / ("one" if turn % 2 == 0 else "two") / "tree")
            isEqual = False
            while not isEqual and time.monotonic() - start < 60 + count / 10:
                time.sleep(0.5)
                isEqual = all(
                    subprocess.run(["diff", "-rq", source, place / name / "tree"], capture_output=True).returncode == 0
                    for name in ("one", "two"))
            seconds.append(round(time.monotonic() - start, 1))
            if not isEqual:
                break
        for mirror in mirrors:
            mirror.terminate()
            mirror.wait()
        server.kill()
        print(json.dumps({"files": count, "first": seconds[0], "rounds": seconds[1:], "equal": isEqual, "seed": seed}))
        if not isEqual:
            for name in ("one", "two"):
                print((place / name / "log").read_text()[-2000:])
        return isEqual


sys.exit(0 if main() else 1)
