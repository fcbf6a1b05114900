#!/usr/bin/env bash
# Two BSON writers put one moment into two milliseconds: the PyPI package bson rounds, pymongo cuts. The last moment of
# the year is the next year for one of them, and the last moment of 9999 cannot be read any more.
#
# bson 0.5.10 and pymongo 4.20.1, whose module is called bson as well; run with CPython 3.11.
#
# Expected: a date of BSON has milliseconds, and what is finer is cut, towards the past: so the moment written is in
# the millisecond stored, days and years stay what they were, and "end of day" (23:59:59.999999) is on that day.
# Seen: bson rounds to the nearest, to even milliseconds where both are as near.
#
#     written                        bson stores                    pymongo stores
#     2020-12-31T23:59:59.999999     2021-01-01T00:00:00.000        2020-12-31T23:59:59.999
#     2020-01-01T00:00:00.000500     00:00:00.000                   00:00:00.000
#     2020-01-01T00:00:00.001500     00:00:00.002                   00:00:00.001
#     1969-12-31T23:59:59.999999     0 (1970-01-01)                 -1
#     9999-12-31T23:59:59.999999     253402300800000, year 10000    253402300799999
#
# pymongo, with its defaults, raises InvalidBSON for the whole document that has the last one.
#
# For a sync engine: "no end" and "end of day" are written this way, so the highest values of a column are the ones
# that differ. Compare dates of two writers with a millisecond to spare, take the year 10000 in an import of BSON, and
# never use a date that came through two libraries as part of a key.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
install=("$folder/venv/bin/pip" install --quiet --disable-pip-version-check --target)
"${install[@]}" "$folder/bson" bson==0.5.10 python-dateutil==2.9.0.post0 six==1.17.0
"${install[@]}" "$folder/pymongo" pymongo==4.20.1

milliseconds() { # as the writer named first stores a moment
    PYTHONPATH="$folder/$1" "$folder/venv/bin/python" - "$2" <<'PYTHON'
import datetime
import struct
import sys
import bson

write = getattr(bson, "dumps", None) or bson.encode
moment = datetime.datetime.fromisoformat(sys.argv[1]).replace(tzinfo=datetime.timezone.utc)
print(*struct.unpack_from("<q", write({"v": moment}), 7))  # after the length, the type and the name
PYTHON
}

while read -r moment rounded cut; do
    seen="$(milliseconds bson "$moment") $(milliseconds pymongo "$moment")"
    printf '%s: bson, pymongo: %s\n' "$moment" "$seen"
    [ "$seen" = "$rounded $cut" ] || { printf 'was %s %s\n' "$rounded" "$cut" >&2; exit 1; }
done <<'END'
2020-12-31T23:59:59.999999 1609459200000 1609459199999
2020-01-01T00:00:00.000500 1577836800000 1577836800000
2020-01-01T00:00:00.001500 1577836800002 1577836800001
1969-12-31T23:59:59.999999 0 -1
9999-12-31T23:59:59.999999 253402300800000 253402300799999
END

read_back=$(PYTHONPATH="$folder/pymongo" "$folder/venv/bin/python" - <<'PYTHON'
import struct
import bson

try:
    bson.decode(struct.pack("<ib2sqb", 16, 9, b"v", 253402300800000, 0))
except bson.errors.InvalidBSON:
    print("InvalidBSON")
PYTHON
)
printf 'pymongo reads the first moment of 10000: %s\n' "$read_back"
[ "$read_back" = InvalidBSON ]
