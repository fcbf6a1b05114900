"""Mirrors a space on a disk that takes capital letters for small ones:  letters.py PATH-OF-ANABRANCH

Of two names that such a disk cannot tell apart one comes into the folder, and the other is told and stays in the space;
nothing is lost, deleted or mixed. The exit status is 1 if something else happens.
"""

import os
import pathlib
import subprocess
import sys

from space import Server, command, folder, library

NAMES = {"Readme": "1", "readme": "2", "Dir/a": "3", "dir/b": "4"}


def main():
    program = os.path.abspath(sys.argv[1])
    with folder() as place:
        place = pathlib.Path(place)
        server, tree, source = Server(program, place / "server"), place / "tree", place / "source"
        fold = {"LD_PRELOAD": str(library("fold", place)), "FOLD_BELOW": str(tree)}

        def run(device, *arguments, environment={}):
            line = command(program, server, place / device, *arguments)
            done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment})
            print(f"{arguments[0]}: {done.returncode} {done.stderr.strip()}")
            return done

        try:
            for name in ("Dir", "dir"):
                run("one", "mkdir", f"/{name}")
            for name, text in NAMES.items():
                source.write_text(text)
                run("one", "put", source, f"/{name}")
            for _ in range(2):
                done = run("two", "mirror", tree, "--once", environment=fold)
                ok = done.returncode == 0 and done.stderr.count("the disk takes its name for that of") == 2
            here = {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()}
            print(here)
            ok = len(here) == 2 and here.items() <= NAMES.items() and ok
            run("three", "mirror", place / "whole", "--once")
            whole = {name: (place / "whole" / name).read_text() for name in NAMES}
            return whole == NAMES and len(list((place / "whole").rglob("*"))) == 6 and ok
        finally:
            server.kill()


sys.exit(0 if main() else 1)
