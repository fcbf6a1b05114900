"""Kills devices and servers at any of their writes, and sees whether anything is lost:

    kills.py PATH-OF-ANABRANCH [SEED [COUNT]]

Two or three devices have a folder each, which `anabranch files mirror` keeps equal to one space. At random, something is
written, renamed, moved or removed in a folder, and a device compares; it, or the server, gets SIGKILL when one of its
calls that write to a disk is done: of the log, a chunk, the cache, or the folder. At the end all compare until they are
at rest. Then `diff -r` finds no difference, and every content that was ever written is there, unless somebody has
overwritten, replaced or removed it in a folder that had it: nothing is lost by itself, conflict copies included.

COUNT runs begin with SEED; the line of one that fails says how to repeat it. The exit status is 1 if one fails.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys

from space import Server, command, faults, folder

NAMES = ["a", "A", "b", "b (2)", "c.txt"]


class Lost(Exception):
    pass


class World:
    def __init__(self, seed, program, server, place, library):
        self.random, self.program, self.server, self.library = random.Random(seed), program, server, library
        self.partition, self.place = f"world {seed} {os.urandom(4).hex()}", place
        self.devices = [place / name for name in ("one", "two", "three")[: self.random.choice([2, 2, 3])]]
        for device in self.devices:
            (device / "tree").mkdir(parents=True)
        self.written, self.superseded, self.kills, self.steps = set(), set(), 0, []

    # The user, in a folder.

    def contents(self, path):
        """The contents of a file, or of the files below a folder."""
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        return {file.read_text() for file in files}

    def write(self, path):
        if path.is_dir():
            return
        if path.exists():
            self.superseded |= self.contents(path)
        text = f"content {len(self.written)} " + "x" * self.random.randrange(50)
        self.written.add(text)
        path.write_text(text)

    def change(self, device):
        tree = device / "tree"
        everything = sorted(tree.rglob("*"))
        folders = [tree] + [path for path in everything if path.is_dir()]
        target = self.random.choice(folders) / self.random.choice(NAMES)
        source = self.random.choice(everything) if everything else target
        action = self.random.choice(["write", "write", "edit", "edit", "folder", "move", "move", "remove"])
        self.steps.append(f"{device.name}: {action} {source.relative_to(tree)} {target.relative_to(tree)}")
        if action == "write":
            self.write(target)
        elif action == "edit" and source.exists():
            self.write(source)
        elif action == "folder" and not target.exists():
            target.mkdir()
        elif action == "move" and source.exists() and not target.is_relative_to(source) and not target.is_dir():
            if target.exists() and source.is_dir():
                return
            if target.exists():
                self.superseded |= self.contents(target)
            source.rename(target)
        elif action == "remove" and source.exists():
            self.superseded |= self.contents(source)
            shutil.rmtree(source) if source.is_dir() else source.unlink()

    # The programs.

    def compare(self, device, killAt=None):
        environment = dict(os.environ)
        if killAt:
            environment |= {"LD_PRELOAD": str(self.library), "FAULT_KILL_AT": str(killAt)}
        line = command(
            self.program, self.server, device, "mirror", device / "tree", "--once", partition=self.partition)
        done = subprocess.run(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
        if self.server.process.poll() is not None:
            self.restart()
        elif done.returncode == -9 and killAt:
            self.kills += 1
        elif done.returncode != 0:
            raise Lost(f"{device.name} ends with {done.returncode}: {done.stderr.decode()}")
        return done.returncode == 0

    def restart(self, killAt=None):
        """Starts a server that, in its turn, may be killed; one that is killed before it listens starts again."""
        self.server.kill()
        environment = {"LD_PRELOAD": str(self.library), "FAULT_KILL_AT": str(killAt)} if killAt else None
        if not self.server.start(environment):
            self.server.kill()
            self.server.start()

    def run(self):
        for _ in range(self.random.randrange(3, 7)):
            device = self.random.choice(self.devices)
            for _ in range(self.random.randrange(1, 5)):
                self.change(device)
            if self.random.random() < 0.2:
                at = self.random.randrange(1, 120)
                self.steps.append(f"the server ends at {at}")
                self.restart(at)
                self.kills += 1
            at = self.random.choice([None, self.random.randrange(1, 60), self.random.randrange(1, 300)])
            self.steps.append(f"{device.name} compares, and ends at {at}")
            self.compare(device, at)
        self.restart()
        self.rest()
        found = self.contents(self.devices[0] / "tree")
        lost = self.written - self.superseded - found
        if lost:
            raise Lost(f"lost: {lost}")

    def rest(self):
        """Has all devices compare until they have the same."""
        last = None
        for _ in range(8):
            for device in self.devices:
                self.compare(device)
            trees = [{str(path.relative_to(device / "tree")): path.is_dir() or path.read_text()
                      for path in (device / "tree").rglob("*")} for device in self.devices]
            if trees == last and all(tree == trees[0] for tree in trees):
                break
            last = trees
        for device in self.devices[1:]:
            different = subprocess.run(
                ["diff", "-r", self.devices[0] / "tree", device / "tree"], capture_output=True, text=True)
            if different.returncode != 0:
                raise Lost(f"they differ: {different.stdout}")


def main():
    program = os.path.abspath(sys.argv[1])
    first, count = (int(text) for text in (sys.argv[2:] + ["1", "1"][len(sys.argv) - 2:])[:2])
    failures = kills = 0
    with folder() as place:
        place = pathlib.Path(place)
        library, server = faults(place), Server(program, place / "server")
        for seed in range(first, first + count):
            world = World(seed, program, server, place / str(seed), library)
            try:
                world.run()
            except Lost as error:
                failures += 1
                print(f"seed {seed}: {error}\nafter {world.steps}\nagain: {sys.argv[0]} {sys.argv[1]} {seed} 1", flush=True)
            kills += world.kills
            if failures == 0:
                shutil.rmtree(place / str(seed))
        server.kill()
    print(f"{count} runs from seed {first}, {kills} ends by SIGKILL, {failures} failures")
    return failures == 0


sys.exit(0 if main() else 1)
