"""Writes all mutants of mutants.txt into a copy of the merge's sources, each guarded by the number of the active one.

usage: weave.py mutants.txt FOLDER     prints the mutants in order, a line each"""

import pathlib
import re
import sys


def read(path):
    """Yields (what, file, function, statement, replacement)."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    for block in filter(None, (block.strip() for block in re.split(r"\n\s*\n", text))):
        what, place, old, *new = block.splitlines()
        if not old.startswith("- ") or len(new) > 1 or (new and not new[0].startswith("+ ")):
            sys.exit(f"{path}: cannot read:\n{block}")
        if any(line.count("{") != line.count("}") for line in (old, *new)):
            sys.exit(f"{path}: not a whole statement:\n{block}")
        yield what, *place.split(), old[2:], new[0][2:] if new else ""


def main(table, folder):
    places = {}
    for number, (what, file, function, old, new) in enumerate(read(pathlib.Path(table)), start=1):
        print(what)
        places.setdefault((file, function, old), []).append((number, new))
    for (file, function, old), mutants in places.items():
        path = pathlib.Path(folder) / file
        keyword = "" if function.startswith("init") else "func "
        text = path.read_text()
        opening = re.search(rf"{keyword}{re.escape(function)}[(<]", text)
        start = opening.end() if opening else len(text)
        head, rest = text[:start], text[start:]
        body, next_function, tail = rest.partition("func ")
        if body.count(old) != 1:
            sys.exit(f"{file}, {function}: the statement must stand there exactly once: {old}")
        chain = "".join(f"if activeMutant == {number} {{ {new} }} else " for number, new in mutants)
        path.write_text(head + body.replace(old, f"{chain}{{ {old} }}") + next_function + tail)


if __name__ == "__main__":
    main(*sys.argv[1:])
