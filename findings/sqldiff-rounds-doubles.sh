#!/usr/bin/env bash
# The SQL that sqldiff writes to make one database into another rounds doubles to 15 digits: the patched database is not
# the other one, sqldiff writes the same patch again for ever, and the largest double becomes infinity.
#
# sqldiff of Debian's sqlite3-tools 3.40.1-2+deb12u2, run with CPython 3.11; x86-64 Linux.
#
# Expected: after `sqldiff old new | apply to old`, both hold the same values, and sqldiff has nothing more to say. The
# .dump of the shell of the same release writes 20 digits, and all of these values come back.
# Seen, rows of `CREATE TABLE t(k INTEGER PRIMARY KEY, v)`, old values all 0:
#
#     new                       after the patch        sqldiff afterwards
#     0.1 + 0.2                 0.3                    the same UPDATE
#     1 / 3                     0.333333333333333      the same UPDATE
#     2.0 ** 53 + 2             9007199254740990.0     the same UPDATE
#     1.7976931348623157e+308   inf                    the same UPDATE
#     0.1                       0.1                    nothing
#     infinity                  the patch does not run: it names a column Inf
#
# For a sync engine: a comparison of two databases has to compare bits, and a repair has to carry them; a tool that
# compares exactly and writes 15 digits reports a difference that its own repair cannot end. Write doubles with the
# shortest text that reads back, or with 17 digits, and infinities as 9e999.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet sqlite3-tools=3.40.1-2+deb12u2 >/dev/null 2>&1
dpkg --extract sqlite3-tools_*.deb .

python3 - ./usr/bin/sqldiff <<'PYTHON'
import math
import sqlite3
import subprocess
import sys

values = [0.1 + 0.2, 1 / 3, 2.0**53 + 2, 1.7976931348623157e308, 0.1]


def database(name, values):
    connection = sqlite3.connect(name)
    connection.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v)")
    connection.executemany("INSERT INTO t(v) VALUES (?)", [(value,) for value in values])
    connection.commit()
    connection.close()


def difference(old, new):
    return subprocess.run([sys.argv[1], old, new], capture_output=True, text=True, check=True).stdout


def patch(name, sql):
    connection = sqlite3.connect(name)
    connection.executescript(sql)
    rows = [value for (value,) in connection.execute("SELECT v FROM t ORDER BY k")]
    connection.close()
    return rows


database("old", [0] * len(values))
database("new", values)
first = difference("old", "new")
patched = patch("old", first)
again = difference("old", "new")
for value, text, statement in zip(values, patched, first.splitlines()):
    print(f"{value!r:24} {text!r:20} {'the same UPDATE' if statement in again else 'nothing'}")

database("zero", [0])
database("infinity", [math.inf])
try:
    patch("zero", difference("zero", "infinity"))
    refusal = None
except sqlite3.OperationalError as error:
    refusal = str(error)
print("infinity:", refusal)

if not (
    patched == [0.3, 0.333333333333333, 9007199254740990.0, math.inf, 0.1]
    and again.splitlines() == first.splitlines()[:4]
    and refusal == "no such column: Inf"
):
    sys.exit("the behaviour has changed")
PYTHON
