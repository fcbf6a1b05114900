#!/usr/bin/env bash
# An integer of 2^63 or more that the PyPI package bson writes is a Timestamp for MongoDB's driver; a Timestamp that it
# reads is an integer, and is written back as one.
#
# bson 0.5.10 and pymongo 4.20.1, whose module is called bson as well; run with CPython 3.11.
#
# Expected: BSON has no unsigned integers, so 2^63 is refused, as pymongo does; a type that a library does not have is
# an error.
# Seen: bson takes element type 0x11 for "unsigned 64-bit integer". It is the Timestamp of MongoDB's operation log, of
# seconds and a counter, eight bytes long too. Neither side has anything to complain about:
#
#     bson writes 9223372036854775808        pymongo reads Timestamp(2147483648, 0)
#     bson writes 18446744073709551615       pymongo reads Timestamp(4294967295, 4294967295)
#     pymongo writes Timestamp(1, 2)         bson reads 4294967298, writes it back as a 64-bit integer
#
# For a sync engine: a dump can hold Timestamps that were meant as hashes, counters or bit sets, in a column whose
# smaller values are integers. An import that leaves Timestamps out "since no app has them" loses the largest numbers
# of a column, and should say in which field they were; a Timestamp of the far future may be no wrong clock at all.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
install=("$folder/venv/bin/pip" install --quiet --disable-pip-version-check --target)
"${install[@]}" "$folder/bson" bson==0.5.10 python-dateutil==2.9.0.post0 six==1.17.0
"${install[@]}" "$folder/pymongo" pymongo==4.20.1

with() { # runs Python with one of the two
    PYTHONPATH="$folder/$1" "$folder/venv/bin/python" -c "import bson; $2"
}
expect() {
    printf '%s: %s\n' "$1" "$2"
    [ "$2" = "$3" ] || { printf 'was %s\n' "$3" >&2; exit 1; }
}

for row in '9223372036854775808 2147483648,0' '18446744073709551615 4294967295,4294967295'; do
    read -r integer parts <<<"$row"
    data=$(with bson "print(bson.dumps({'v': $integer}).hex())")
    seen=$(with pymongo "v = bson.decode(bytes.fromhex('$data'))['v']; print(type(v).__name__, v.time, v.inc, sep=',')")
    expect "bson writes $integer, pymongo reads" "$seen" "Timestamp,$parts"
done

refused=$(with pymongo "
try: bson.encode({'v': 2**63})
except OverflowError: print('OverflowError')")
expect 'pymongo writes 9223372036854775808' "$refused" OverflowError

data=$(with pymongo "print(bson.encode({'v': bson.Timestamp(1, 2)}).hex())")
back=$(with bson "v = bson.loads(bytes.fromhex('$data')); print(v['v'], bson.dumps(v).hex(), sep=',')")
expect 'pymongo writes Timestamp(1, 2), bson reads' "${back%,*}" 4294967298
seen=$(with pymongo "v = bson.decode(bytes.fromhex('${back#*,}'))['v']; print(type(v).__name__, v, sep=',')")
expect 'bson writes it back, pymongo reads' "$seen" Int64,4294967298
