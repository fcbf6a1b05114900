"""Measures transfers of one large file beside curl:  transfer.py PATH-OF-ANABRANCH [MEBIBYTES]

The file goes up with `anabranch files put` and comes down, on another device, with `anabranch files get`; curl puts and
gets the same chunks at the same server, in another partition, one after another over one connection. Prints one JSON
object: the seconds of each, the ratio (curl's seconds to ours: above 1 we are quicker), and the most memory that the
server and the command had for themselves in each transfer, in MiB. The exit status is 1 if a ratio is below 0.6, or memory above
32 MiB, or if the copy differs.
"""

import hashlib
import json
import os
import pathlib
import sys

from space import APP, Server, command, folder, run

CHUNK = 4 << 20


def make(path, mebibytes):
    """A file whose chunks all differ."""
    block = os.urandom(CHUNK - 8)
    with open(path, "wb") as file:
        for number in range(mebibytes // 4):
            file.write(number.to_bytes(8, "big") + block)


def cut(path, target):
    """The chunks of a file, as files with their hashes as names; the names in order."""
    names = []
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            names.append(hashlib.sha256(chunk).hexdigest())
            (target / names[-1]).write_bytes(chunk)
    return names


def curl(server, token, folder, names, is_upload):
    """Has curl transfer all chunks, and returns its seconds."""
    lines = []
    for number, name in enumerate(names):
        if number:
            lines.append("next")
        lines += [
            f'url = "http://{server.address}/files/{APP}/chunks/{name}?path=%22curl%22"',
            f'header = "Authorization: Bearer {token}"', 'header = "Expect:"', "fail-early", "fail", "silent", "show-error",
            f'upload-file = "{folder / name}"' if is_upload else f'output = "{folder / name}.copy"',
        ]
    (folder / "config").write_text("\n".join(lines))
    return run(["curl", "--config", folder / "config"])[0]


def main():
    program, mebibytes = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5120
    with folder() as place:
        place = pathlib.Path(place)
        for name in ["chunks", "one", "two"]:
            (place / name).mkdir()
        server, source, copy = Server(program, place / "server"), place / "source", place / "copy"
        make(source, mebibytes)
        names = cut(source, place / "chunks")
        result, token = {"mebibytes": mebibytes}, server.token()
        transfers = [
            ("up", command(program, server, place / "one", "put", source, "/big")),
            ("down", command(program, server, place / "two", "get", "/big", copy)),
        ]
        for name, line in transfers:
            os.sync()
            theirs = curl(server, token, place / "chunks", names, name == "up")
            os.sync()
            ours, (client, served) = run(line, server.process.pid)
            result[name] = {
                "seconds": round(ours, 2), "curl_seconds": round(theirs, 2), "ratio": round(theirs / ours, 2),
                "client_mib": client >> 10, "server_mib": served >> 10,
            }
        server.kill()
        with open(source, "rb") as one, open(copy, "rb") as other:
            same = hashlib.file_digest(one, "sha256").digest() == hashlib.file_digest(other, "sha256").digest()
        result["same"] = same
        print(json.dumps(result))
        figures = [result["up"], result["down"]]
        return same and all(
            figure["ratio"] >= 0.6 and max(figure["client_mib"], figure["server_mib"]) <= 32 for figure in figures)


sys.exit(0 if main() else 1)
