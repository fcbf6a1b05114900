#!/usr/bin/env bash
# AUTOINCREMENT gives an id twice after a statement that ended by OR FAIL.
#
# apsw 3.54.1.0 with SQLite 3.54.1 inside, run with CPython 3.11.
#
# Expected: with AUTOINCREMENT an id is larger than any that the table has ever had, also of rows deleted since. So a
# reader that remembers the largest id it has seen finds all that is new above it, and whoever has read rows may
# delete them.
# Seen: OR FAIL keeps the rows that the statement had written before it failed, but the largest id is put into
# sqlite_sequence at the end of a statement only, which it does not reach. The rows stay, the sequence lags behind:
#
#     INSERT OR FAIL of 'a', 'b' and a value that is not unique      ids 2 and 3 are there, sqlite_sequence has 1
#     the two are deleted, 'c' is inserted                           'c' has id 2
#
# In a history that a trigger writes it takes no OR FAIL of one's own: an application's UPDATE OR FAIL is enough. While
# the rows are there all is well, since the larger of both is taken.
#
# For a sync engine: a reader with a cursor that deletes what it has read must leave the newest row, or raise
# sqlite_sequence itself; else the next change lies at or below the cursor and is never read.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import apsw

known = {
    "an insert of several rows": ([(1, "k"), (2, "a"), (3, "b")], [("h", 1)], [(1, "k"), (2, "c")]),
    "a trigger's history": ([(1, "changed 1")], [], [(1, "changed 1")]),
    "a history of which the newest row stays": ([(1, "changed 1")], [], [(1, "changed 1"), (2, "changed 1")]),
}


def fail(connection, statement):
    try:
        connection.execute(statement)
    except apsw.ConstraintError:
        return
    sys.exit(f"did not fail: {statement}")


for name, was in known.items():
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE h (id INTEGER PRIMARY KEY AUTOINCREMENT, x)")
    if name == "an insert of several rows":
        connection.execute("CREATE UNIQUE INDEX u ON h (x); INSERT INTO h (x) VALUES ('k')")
        fail(connection, "INSERT OR FAIL INTO h (x) VALUES ('a'), ('b'), ('k')")
    else:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        connection.execute(
            "CREATE TRIGGER b BEFORE UPDATE ON t BEGIN INSERT INTO h (x) VALUES ('changed ' || OLD.id); END")
        fail(connection, "UPDATE OR FAIL t SET a = 'y' WHERE id = 1")
    rows = list(connection.execute("SELECT * FROM h"))
    sequence = list(connection.execute("SELECT * FROM sqlite_sequence"))
    if name == "an insert of several rows":
        connection.execute("DELETE FROM h WHERE id > 1; INSERT INTO h (x) VALUES ('c')")
    else:
        if "stays" not in name:
            connection.execute("DELETE FROM h")
        connection.execute("UPDATE t SET a = 'z' WHERE id = 1")
    seen = rows, sequence, list(connection.execute("SELECT * FROM h"))
    print(f"{name}: rows {rows}, sqlite_sequence {sequence}, in the end {seen[2]}")
    if seen != was:
        sys.exit(f"was {was}")
PYTHON
