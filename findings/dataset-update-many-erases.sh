#!/usr/bin/env bash
# In the PyPI package dataset, two partial updates of two rows in one update_many each erase the columns that only the
# other one names. Two calls of update, and upsert_many, leave them alone.
#
# dataset 1.6.2, run with CPython 3.11 and its SQLite.
#
# Expected: a row of update_many changes what update would change with the same row: the columns that it names.
# Seen, each time from {k: 1, a: 1, b: 2} and {k: 2, a: 3, b: 4}, with {k: 1, a: 9} and {k: 2, b: 7}:
#
#     update, twice                 {k: 1, a: 9, b: 2}       {k: 2, a: 3, b: 7}
#     update_many, both             {k: 1, a: 9, b: None}    {k: 2, a: None, b: 7}
#     upsert_many, both             {k: 1, a: 9, b: 2}       {k: 2, a: 3, b: 7}
#     update_many, one row a call   {k: 1, a: 9, b: 2}       {k: 2, a: 3, b: 7}
#
# update_many takes the key out of the caller's rows, too: a second call with the same list is a KeyError.
#
# So the loss depends on which rows happen to share a call, and on the name of the call.
#
# For a sync engine: a library's partial update can reach a captured database as a write of null into columns that
# nobody touched, and a capture sees what was written, not what was meant. Nulls that come in bulk from one writer are
# worth a look in the history before they are merged elsewhere.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dataset==1.6.2

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import dataset

def changes():
    # A list of its own for each call: update_many takes the keys out of the rows that it is given.
    return [{"k": 1, "a": 9}, {"k": 2, "b": 7}]


def rows_after(write):
    table = dataset.connect("sqlite:///:memory:")["t"]
    table.insert_many([{"k": 1, "a": 1, "b": 2}, {"k": 2, "a": 3, "b": 4}])
    write(table)
    return [{name: row[name] for name in "kab"} for row in table.all(order_by="k")]


seen = {
    "update, twice": rows_after(lambda table: [table.update(row, ["k"]) for row in changes()]),
    "update_many, both": rows_after(lambda table: table.update_many(changes(), ["k"])),
    "upsert_many, both": rows_after(lambda table: table.upsert_many(changes(), ["k"])),
    "update_many, one row a call": rows_after(lambda table: [table.update_many([row], ["k"]) for row in changes()]),
}
for call, rows in seen.items():
    print(f"{call:29} {rows}")

kept = [{"k": 1, "a": 9, "b": 2}, {"k": 2, "a": 3, "b": 7}]
erased = [{"k": 1, "a": 9, "b": None}, {"k": 2, "a": None, "b": 7}]
if list(seen.values()) != [kept, erased, kept, kept]:
    sys.exit("the behaviour has changed")
PYTHON
