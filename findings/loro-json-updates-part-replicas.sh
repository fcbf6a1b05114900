#!/usr/bin/env bash
# A loro document that got its history by JSON updates holds other values than one that got it in the binary form, says
# that it has the very same operations, and never becomes equal again.
#
# loro 1.17.1, run with CPython 3.11.
#
# Expected: export_json_updates and import_json_updates carry what export and import_ carry, or raise an error for a
# value that JSON does not have.
# Seen, one map of one writer, read by a replica that imported JSON and one that imported a snapshot:
#
#     written         by JSON      by snapshot
#     7.0             7.0          7.0
#     -0.0            -0.0         -0.0
#     b'\x01\x02'     [1, 2]       b'\x01\x02'
#     b''             []           b''
#     inf             None         inf
#     nan             None         nan
#
# Both have the version vector {1: 6}. Each then imports the snapshot of the other: nothing is imported, and nothing is
# pending, since all operations are there. Whoever starts from the first replica has its values, too.
#
# For a sync engine: an operation's id stands for its value everywhere. A second form of the log has to carry every
# value of the first one, or refuse it by name; a form that only comes close makes replicas that no merge can heal.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check loro==1.17.1

"$folder/venv/bin/python" - <<'PYTHON'
import math
import sys
from loro import ExportMode, LoroDoc, VersionVector

values = [7.0, -0.0, b"\x01\x02", b"", math.inf, math.nan]


def document(peer):
    doc = LoroDoc()
    doc.peer_id = peer
    return doc


def texts(doc):
    state = doc.get_deep_value()["m"]
    return [repr(state[str(place)]) for place in range(len(values))]


def snapshot(doc):
    return doc.export(ExportMode.Snapshot())


writer = document(1)
for place, value in enumerate(values):
    writer.get_map("m").insert(str(place), value)
writer.commit()

by_json, by_snapshot, late = document(2), document(3), document(4)
by_json.import_json_updates(writer.export_json_updates(VersionVector(), writer.oplog_vv))
by_snapshot.import_(snapshot(writer))
for value, one, other in zip(values, texts(by_json), texts(by_snapshot)):
    print(f"{value!r:15} {one:12} {other}")

same_versions = by_json.oplog_vv == by_snapshot.oplog_vv == writer.oplog_vv
before = texts(by_json), texts(by_snapshot)
statuses = str(by_json.import_(snapshot(by_snapshot))), str(by_snapshot.import_(snapshot(by_json)))
late.import_(snapshot(by_json))
print("same versions:", same_versions, statuses[0])

expected = (
    ["7.0", "-0.0", "[1, 2]", "[]", "None", "None"],
    ["7.0", "-0.0", "b'\\x01\\x02'", "b''", "inf", "nan"],
)
nothing = "ImportStatus { success: VersionRange(VersionRange({})), pending: None }"
if not (
    before == expected
    and (texts(by_json), texts(by_snapshot)) == expected
    and texts(late) == expected[0]
    and same_versions
    and statuses == (nothing, nothing)
):
    sys.exit("the behaviour has changed")
PYTHON
