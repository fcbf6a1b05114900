"""Runs the example of a mirror between two machines:  example.py PATH-OF-ANABRANCH PATH-OF-FILESMIRROR

What is written, edited and removed in one folder comes into the other, also while one of them is not running; and what
both have edited stays twice. The exit status is 1 if not.
"""

import os
import pathlib
import subprocess
import sys
import time

from space import Server, folder


def tree(place):
    """The files and folders, without what the mirror keeps for itself."""
    found = {}
    for path in place.rglob("*"):
        name = path.relative_to(place)
        if name.parts[0] != ".mirror":
            found[str(name)] = path.read_text() if path.is_file() else None
    return found


def main():
    anabranch, program = map(os.path.abspath, sys.argv[1:3])
    with folder() as place:
        place = pathlib.Path(place)
        server = Server(anabranch, place / "server")
        one, two = place / "one", place / "two"
        running = {}

        def start(machine):
            machine.mkdir(exist_ok=True)
            running[machine] = subprocess.Popen([program, machine, f"http://{server.address}"])

        def both(check):
            """Waits until both are equal and as they should be."""
            for _ in range(300):
                try:
                    if tree(one) == tree(two) and check(tree(one)):
                        return
                except OSError:
                    pass
                time.sleep(0.1)
            raise SystemExit(f"{tree(one)} and {tree(two)}")

        try:
            for machine in (one, two):
                start(machine)
            (one / "plans").mkdir()
            (one / "plans" / "a").write_text("first")
            (two / "b").write_text("second")
            both(lambda tree: tree == {"plans": None, "plans/a": "first", "b": "second"})
            running[two].kill()
            running[two].wait()
            (one / "plans" / "a").write_text("edited by one")
            (two / "plans" / "a").write_text("edited by the other")
            (two / "b").unlink()
            time.sleep(2)
            start(two)
            both(lambda tree: sorted(filter(None, tree.values())) == ["edited by one", "edited by the other"])
            (two / "c").write_text("third")
            for path in (two / "plans").iterdir():
                path.unlink()
            (two / "plans").rmdir()
            both(lambda tree: tree == {"c": "third"})
        finally:
            for process in running.values():
                process.kill()
            server.kill()


main()
