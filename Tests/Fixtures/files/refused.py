"""Mirrors and puts what cannot be read:  refused.py PATH-OF-ANABRANCH

A file and a folder that the user may not read are told and passed over: the mirror goes on, nothing in the folder
counts as deleted or moved, and no empty file stands for what is not known. Once they can be read they come up under
their own names. A put of a file that is missing, or of a pipe, says so, ends with 1, and makes nothing; a get into a
folder that is missing does not put it down to the server. What comes from the standard input can be put, and got on
the standard output. The exit status is 1 if something else happens. Since nothing is refused to root, it runs the
commands as another user.
"""

import os
import pathlib
import subprocess
import sys

from space import Server, command, folder

NOBODY = 65534


def main():
    program = os.path.abspath(sys.argv[1])
    with folder() as place:
        os.chmod(place, 0o755)
        place = pathlib.Path(place)
        server, tree, device = Server(program, place / "server"), place / "tree", place / "one"
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}

        def run(*arguments, **options):
            done = subprocess.run(
                command(program, server, device, *arguments), capture_output=True, text=True, timeout=120, **user,
                **options)
            print(f"{arguments[0]}: {done.returncode} {done.stderr.strip()}")
            return done

        def names():
            return {line.split("  /")[1] for line in run("ls", "--recursive").stdout.splitlines()}

        try:
            (tree / "locked").mkdir(parents=True)
            device.mkdir()
            os.mkfifo(place / "pipe")
            for name in ("locked/in", "unreadable", "ok"):
                (tree / name).write_text(name)
            everything = [place / "pipe", device, tree, *tree.rglob("*")]
            if user:
                for path in everything:
                    os.chown(path, NOBODY, NOBODY)
            (tree / "unreadable").chmod(0)
            first = run("mirror", tree, "--once")
            os.link(tree / "locked/in", tree / "link")
            (tree / "locked").chmod(0)
            second = run("mirror", tree, "--once")
            ok = first.returncode == second.returncode == 0 and second.stderr.count("Permission denied") == 2
            ok = names() == {"locked/", "locked/in", "link", "ok"} and ok
            (tree / "locked").chmod(0o700)
            (tree / "unreadable").chmod(0o600)
            ok = run("mirror", tree, "--once").returncode == 0 and ok
            for source in (place / "pipe", place / "missing"):
                ok = run("put", source, "/new").returncode == 1 and ok
            ok = names() == {"locked/", "locked/in", "link", "ok", "unreadable"} and ok
            nowhere = run("get", "/ok", place / "missing" / "copy")
            ok = nowhere.returncode == 1 and server.address not in nowhere.stderr and ok
            ok = run("put", "-", "/piped", input="through a pipe").returncode == 0 and ok
            ok = run("get", "/piped", "-").stdout == "through a pipe" and ok
            return ok
        finally:
            server.kill()


sys.exit(0 if main() else 1)
