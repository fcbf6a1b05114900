"""Fills the disk of a device while a file comes and one is put, and then that of the server, and makes room again:

    full.py PATH-OF-ANABRANCH

Each time the command says so in a sentence and ends with 1; nothing is damaged; and once there is room, the same command
succeeds, and another device gets the same bytes. A mirror tells it, too, and goes on. The exit status is 1 if something
else happens.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading

from space import Server, command, faults, folder


def main():
    program = os.path.abspath(sys.argv[1])
    with folder() as place:
        place = pathlib.Path(place)
        flag, source = place / "full", place / "source"
        full = {"LD_PRELOAD": str(faults(place)), "FAULT_FULL_WHILE": str(flag)}
        source.write_bytes(os.urandom(5 << 20))
        server = Server(program, place / "server", full)

        def put(name, environment):
            line = command(program, server, place / "one", "put", source, name)
            done = subprocess.run(
                [*line, "--timeout", "5"], capture_output=True, text=True, env={**os.environ, **environment})
            print(f"{name}: {done.returncode} {done.stderr.strip()}")
            return done

        def get(name, target):
            line = command(program, server, place / "three", "get", name, target)
            done = subprocess.run([*line, "--timeout", "5"], capture_output=True, text=True, env={**os.environ, **full})
            print(f"{name}: {done.returncode} {done.stderr.strip()}")
            return done

        ok, copy = put("/first", full).returncode == 0, place / "copy-of-first"
        flag.write_text("")
        refused = get("/first", copy)
        ok = ok and refused.returncode == 1 and "No space left on device" in refused.stderr and not copy.exists()
        flag.unlink()
        ok = get("/first", copy).returncode == 0 and copy.read_bytes() == source.read_bytes() and ok
        for owner, name, environment, sentence in [
            ("device", "/second", full, "No space left on device"),
            ("server", "/third", {}, "the disk of the server is full"),
        ]:
            flag.write_text("")
            source.write_bytes(os.urandom(5 << 20))
            refused = put(name, environment)
            ok = ok and refused.returncode == 1 and sentence in refused.stderr
            flag.unlink()
            # A file for which the device has no room is not made; what only the server has no room for waits.
            listed = command(program, server, place / "one", "ls", "--json")
            paths = [json.loads(line)["path"] for line in subprocess.check_output(listed, text=True).splitlines()]
            ok = (name in paths) == (owner == "server") and ok
            ok = put(name, environment).returncode == 0 and ok
            copy = place / f"copy-{owner}"
            subprocess.run(command(program, server, place / "two", "get", name, copy), check=True)
            ok = copy.read_bytes() == source.read_bytes() and ok
        tree = place / "tree"
        tree.mkdir()
        (tree / "fourth").write_bytes(os.urandom(1 << 20))
        flag.write_text("")
        mirror = subprocess.Popen(
            command(program, server, place / "one", "mirror", tree), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True)
        patience = threading.Timer(120, mirror.kill)
        patience.start()
        told = mirror.stderr.readline()
        print(f"mirror: {told.strip()}")
        ok = told.startswith("not uploaded: /fourth: ") and "the disk of the server is full" in told and ok
        flag.unlink()
        mirror.terminate()
        mirror.wait()
        patience.cancel()
        server.kill()
        verified = subprocess.run([program, "verify", "--chunks", "--data", place / "server" / "data"], check=False)
        return ok and verified.returncode == 0


sys.exit(0 if main() else 1)
