#!/usr/bin/env bash
# A write that changes nothing decides whether a SQLite changeset counts twice on a copy with the same triggers.
#
# apsw 3.54.1.0 with SQLite 3.54.1 inside, run with CPython 3.11.
#
# Expected: a changeset has the state before and after and no order of statements; applied to a copy of the database it
# gives the same rows or reports a conflict, and writing a value over itself adds nothing to it.
# Seen: two inserts into t, whose trigger adds one to total for each; on the copy:
#
#     before the inserts, within the session     conflicts    total here    total on the copy
#     nothing                                    1            2             2
#     UPDATE total SET n = n                     0            2             4
#     an insert into total, and its delete       0            2             4
#     UPDATE total SET n = n, of no row          1            2             2
#
# Tables stand in a changeset in the order in which the session first saw a row of theirs written. Where t comes first,
# the trigger of the copy has counted when the recorded total arrives, which does not find the old value: a conflict,
# and left out it is right. Where total comes first, it is set to what is recorded and counted up again: no conflict,
# and wrong. So the handler that is told most has the copy that is right, and a test that begins with the inserts
# passes.
#
# For a sync engine: applying must not fire what the changes already contain. Switch the triggers of the application
# off for it (apsw: config(SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)), or let them ask for a mark that the applier sets; no
# handler of conflicts can make up for it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import apsw

SCHEMA = """
CREATE TABLE t (k INTEGER PRIMARY KEY, a);
CREATE TABLE total (k INTEGER PRIMARY KEY, n);
INSERT INTO total VALUES (1, 0);
CREATE TRIGGER counts AFTER INSERT ON t BEGIN UPDATE total SET n = n + 1; END;
"""


def database():
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA)
    return connection


def total(connection):
    return connection.execute("SELECT n FROM total").fetchall()


def run(first, triggers=1):
    here, copy = database(), database()
    session = apsw.Session(here, "main")
    session.attach()
    here.execute(first)
    here.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    conflicts = []

    def leave_out(reason, entry):
        conflicts.append(f"{entry.op} {entry.name}")
        return apsw.SQLITE_CHANGESET_OMIT

    changeset = session.changeset()
    tables = list(dict.fromkeys(entry.name for entry in apsw.Changeset.iter(changeset)))
    copy.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, triggers)
    apsw.Changeset.apply(changeset, copy, conflict=leave_out)
    assert copy.execute("SELECT * FROM t").fetchall() == here.execute("SELECT * FROM t").fetchall()
    return tables, conflicts, total(here), total(copy)


right = ["t", "total"], ["UPDATE total"], [(2,)], [(2,)]
twice = ["total", "t"], [], [(2,)], [(4,)]
for first, was in (
    ("", right),
    ("UPDATE total SET n = n", twice),
    ("INSERT INTO total VALUES (2, 0); DELETE FROM total WHERE k = 2", twice),
    ("UPDATE total SET n = n WHERE k = 2", right),
):
    seen = run(first)
    print(f"{first or 'nothing'}: tables, conflicts, total here and on the copy: {seen}")
    if seen != was:
        sys.exit(f"was {was}")
    if run(first, triggers=0) != (was[0], [], [(2,)], [(2,)]):
        sys.exit("without triggers it was right, and without a conflict")
PYTHON
