#!/usr/bin/env bash
# The difference of two tables that SQLite's session extension computes leaves values different, and finds the very
# same ones if anything else in the row differs.
#
# apsw 3.54.1.0 with SQLite 3.54.1 inside, run with CPython 3.11.
#
# Expected: `diff` loads what makes one table like the other, so after applying it they are alike; it finds what a
# session would have recorded while the one was changed into the other.
# Seen, one row with a key and the columns v and w, w being 1 on both sides, or 2 on the wanted one:
#
#     column v                  here     wanted    recorded    diff, w = 1    diff, w = 2
#     TEXT                      'abc'    'ABC'     v           v              v, w
#     TEXT COLLATE NOCASE       'abc'    'ABC'     v           nothing        v, w
#     TEXT COLLATE RTRIM        'abc'    'abc '    v           nothing        v, w
#     no type                   1        1.0       v           nothing        v, w
#     no type                   1        '1'       v           v              v, w
#
# Rows that differ are found by SQL, which asks the column's collation and takes 1 for 1.0; the columns that changed in
# such a row are found by type and bytes. An empty difference therefore is no proof that two tables have one content,
# and a correction of capitals arrives with the next edit of another column, or never.
#
# For a sync engine: compare by one rule in all places, and by the strictest: typeof() and the value COLLATE BINARY, or
# a hash of type and bytes. A column that somebody declared NOCASE for the sake of searching is none whose capitals do
# not matter.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import apsw


def database(column, here, wanted, w):
    connection = apsw.Connection(":memory:")
    connection.execute("ATTACH ':memory:' AS wanted")
    for schema, *values in (("main", here, 1), ("wanted", wanted, w)):
        connection.execute(f"CREATE TABLE {schema}.t (k INTEGER PRIMARY KEY, v {column}, w)")
        connection.execute(f"INSERT INTO {schema}.t VALUES (1, {values[0]}, {values[1]})")
    return connection


def columns(changeset):
    return [
        name
        for entry in apsw.Changeset.iter(changeset)
        for name, value in zip("kvw", entry.new)
        if value is not apsw.no_change
    ]


def content(connection, schema):
    return repr(list(connection.execute(f"SELECT * FROM {schema}.t")))


def recorded(column, here, wanted):
    connection = database(column, here, wanted, 1)
    session = apsw.Session(connection, "main")
    session.attach("t")
    connection.execute(f"UPDATE main.t SET v = {wanted}")
    return columns(session.changeset())


def difference(column, here, wanted, w):
    connection = database(column, here, wanted, w)
    session = apsw.Session(connection, "wanted")
    session.attach("t")
    session.diff("main", "t")
    changeset = session.changeset()
    apsw.Changeset.apply(changeset, connection)  # changes main
    return columns(changeset), content(connection, "main") == content(connection, "wanted")


found, left, both = (["v"], True), ([], False), (["v", "w"], True)
for column, here, wanted, was in (
    ("TEXT", "'abc'", "'ABC'", found),
    ("TEXT COLLATE NOCASE", "'abc'", "'ABC'", left),
    ("TEXT COLLATE RTRIM", "'abc'", "'abc '", left),
    ("", "1", "1.0", left),
    ("", "1", "'1'", found),
):
    values = column, here, wanted
    seen = recorded(*values), difference(*values, 1), difference(*values, 2)
    print(f"v {column}, {here} -> {wanted}: recorded, diff and alike, the same with w: {seen}")
    if seen != (["v"], was, both):
        sys.exit(f"was {(['v'], was, both)}")
PYTHON
