"""One UPLOAD through a server, from its socket to another client's: how many functions of ours it calls.

    upload.py SERVER SOURCES LIST

SERVER is an `anabranch` with debug information, SOURCES the folder of the sources that it was built from. LIST is
written: the functions that were called, each after the file in which it stands. Prints how many functions and files
that are."""
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from calls import Calls

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../Values"))
from server import Connection, Server  # noqa: E402

PARTITION = b'"trace"'
# Codec and merge. Each is one function in one file, and what it calls is not counted.
PARTS = ("AnabranchCore/Changeset", "AnabranchProtocol/Message", "AnabranchCore/Merge")
# The class `A` with the integer `_id` as its key, and a text `s`; objects of it with a text (Spec/Changeset.md, 13).
SCHEMA = bytes.fromhex("3f000141 3f01035f6964 3f020173 000000010100 060002030000")
OBJECTS = [bytes.fromhex(f"3f000141 3f010173 020001{key} 040001{key}0100 030568656c6c6f 00") for key in ("01", "02")]


class Session(Connection):
    """A new client file of the partition, which stays open."""

    def __init__(self, server):
        super().__init__(server, "trace")
        self.socket.settimeout(600)
        self.version = 1
        self.send(b"bind 1 %d 0 1 0\n" % len(PARTITION) + PARTITION)
        self.send(b"ident 1 %s %s 0 0 0 0\n" % tuple(self.message()[0][2:4]))
        self.send(b"mark 1 1\n")
        while self.message()[0][0] != b"mark":
            pass

    def upload(self, server_version, changeset):
        """Uploads a changeset that was made when it had what the server has up to a version."""
        self.version += 1
        time_of_protocol = (time.time() - 1420070400) * 1000  # since 2015
        entry = b"%d %d %d 0 %d " % (self.version, server_version, time_of_protocol, len(changeset)) + changeset
        self.send(b"upload 1 0 %d 0 %d %d 0\n" % (len(entry), self.version, server_version) + entry)

    def wait(self):
        words, _ = self.message()
        if words[0] != b"download":
            raise RuntimeError(f"no DOWNLOAD: {words}")


def trace(program, places, part_of):
    """The functions that are called while one of two clients uploads and both get their DOWNLOADs."""
    with Server(program) as server, ThreadPoolExecutor() as clients:
        writer, reader = Session(server), Session(server)

        def exchange(sender, server_version, changeset):
            sender.upload(server_version, changeset)
            reader.wait()
            writer.wait()

        exchange(writer, 0, SCHEMA)
        exchange(reader, 1, OBJECTS[0])
        # Made without what the reader has uploaded, so that it is merged.
        return Calls(server.process.pid, program, places, part_of).during(
            lambda: clients.submit(exchange, writer, 1, OBJECTS[1]))


def places_of_functions(program, sources):
    """The functions of the program: address, name, and file below the sources; None for those of others.

    What the compiler makes by itself is in no file."""
    tools = os.path.dirname(os.path.realpath(subprocess.check_output(["which", "swift"], text=True).strip()))
    symbols = [line.split() for line in subprocess.check_output([f"{tools}/llvm-nm", program], text=True).splitlines()]
    symbols = [(int(words[0], 16), words[2]) for words in symbols if len(words) == 3 and words[1] in "tT"]
    ours = [symbol for symbol in symbols if "nabranch" in symbol[1]]
    lines = subprocess.run(
        [f"{tools}/llvm-symbolizer", f"--obj={program}", "--functions=none", "--no-inlines", "--output-style=GNU"],
        input="".join(f"{address:#x}\n" for address, _ in ours), capture_output=True, text=True,
        check=True).stdout.splitlines()
    files = {symbol: line.rpartition(":")[0][len(sources):]
             for symbol, line in zip(ours, lines, strict=True) if line.startswith(sources)}
    return [(*symbol, files.get(symbol)) for symbol in symbols]


def functions(names):
    """The functions to which names of the program belong: closures, and what follows an `await`, are parts of them."""
    words = subprocess.run(["swift", "demangle", "--compact"], input="\n".join(names), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    # Of types, "in" names the extension or the file to which they are private.
    prefix = re.compile(r"\(\d+\) (?:await|suspend) resume partial function for |default argument \d+ of "
                        r"|(?:(?:implicit )?closure|\$defer) #\d+ .*?(?<!extension) in (?!_[0-9A-F]{32}\))")
    found = []
    for text in words:
        while match := prefix.match(text):
            text = text[match.end():]
        found.append(re.sub(r" with unmangled suffix .*", "", text))
    return dict(zip(names, found, strict=True))


def main():
    program, sources, target = sys.argv[1:]
    program, sources = os.path.realpath(program), os.path.realpath(sources) + "/"

    def part_of(file):
        return next((part for part in PARTS if file.startswith(part + "/")), None)

    called = trace(program, places_of_functions(program, sources), part_of)
    words = functions([name for name, _ in called])
    found = {(part_of(file), "") if part_of(file) else (file, words[name]) for name, file in called}
    with open(target, "w") as list_of_functions:
        list_of_functions.writelines(f"{file} {name}".strip() + "\n" for file, name in sorted(found))
    print(len(found), len({file for file, _ in found}))


main()
