#!/usr/bin/env bash
# One UPDATE of one row works in Python's sqlite3 and in the shell of SQLite, and fails in sqlite-utils, if the table
# has a trigger that writes to the row itself. REPLACE fires delete triggers there and nowhere else. A change of a
# table's shape leaves it without any trigger, and says nothing.
#
# sqlite-utils 4.2.1 with the SQLite of CPython 3.11.
#
# Expected: what a statement does is up to the database file, in which the triggers stand, and not to the program.
# Seen, a table with a trigger that counts edits (AFTER UPDATE ... UPDATE the same row) and one after deletes:
#
#     statement                 sqlite3                        sqlite-utils
#     UPDATE of the row         done, edits = 1                OperationalError: too many levels of trigger recursion
#     INSERT OR REPLACE         delete trigger does not fire   fires
#     transform(rename=...)                                    both triggers are gone
#
# The library turns `recursive_triggers` on for each of its connections, which is no property of the file.
# Database(path, recursive_triggers=False) does as others do. `transform` writes the table anew under its name and
# makes its indexes again, but not its triggers; add_column keeps them.
#
# For whoever captures databases by triggers: they have to be right with recursion and without. A REPLACE has to be told
# from what is inserted, not from the delete trigger. Before each round, look whether the triggers are still there.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check sqlite-utils==4.2.1

"$folder/venv/bin/python" - "$folder/notes.db" <<'PYTHON'
import sqlite3
import sys

import sqlite_utils

path = sys.argv[1]
SCHEMA = """
CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, edits INTEGER DEFAULT 0);
CREATE TABLE gone (id INTEGER);
CREATE TRIGGER counts AFTER UPDATE ON note BEGIN UPDATE note SET edits = edits + 1 WHERE id = NEW.id; END;
CREATE TRIGGER goes AFTER DELETE ON note BEGIN INSERT INTO gone VALUES (OLD.id); END;
INSERT INTO note (id, text) VALUES (1, 'a');
"""
UPDATE = "UPDATE note SET text = 'b' WHERE id = 1"
REPLACE = "INSERT OR REPLACE INTO note (id, text) VALUES (1, 'c')"


def expect(name, seen, was):
    print(f"{name}: {seen}")
    if seen != was:
        sys.exit(f"{name} was {was}")


plain = sqlite3.connect(path, isolation_level=None)
plain.executescript(SCHEMA)
plain.execute(UPDATE)
expect("sqlite3, UPDATE", plain.execute("SELECT * FROM note").fetchall(), [(1, "b", 1)])
plain.execute(REPLACE)
expect("sqlite3, REPLACE, deletes noticed", plain.execute("SELECT count(*) FROM gone").fetchone()[0], 0)
plain.close()

database = sqlite_utils.Database(path)
try:
    database["note"].update(1, {"text": "b"})
    seen = "done"
except sqlite3.OperationalError as error:
    seen = str(error)
expect("sqlite-utils, UPDATE", seen, "too many levels of trigger recursion")
database["note"].insert({"id": 1, "text": "c"}, pk="id", replace=True)
expect("sqlite-utils, REPLACE, deletes noticed", database["gone"].count, 1)
database["note"].add_column("stars", int)
expect("triggers after add_column", len(database.triggers), 2)
database["note"].transform(rename={"text": "body"})
expect("triggers after transform", len(database.triggers), 0)
database.close()

database = sqlite_utils.Database(path, recursive_triggers=False)
expect("without recursion, the pragma", database.execute("PRAGMA recursive_triggers").fetchone()[0], 0)
PYTHON
