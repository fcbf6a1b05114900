#!/usr/bin/env bash
# Writing binary property lists changes the sign of zeros: plistlib gives all zeros of a file the sign of its first
# one, biplist all zeros of a *process* that of the first one it has ever written, in whatever file that was.
#
# biplist 1.0.3, and plistlib of the CPython that runs this (seen with 3.11).
#
# Expected: a real is eight bytes in the binary form, so all values of IEEE 754 come back; -0 is in doubt in XML only.
# Seen: a writer stores equal values once, and looks for them by equality; 0.0 and -0.0 are equal. In XML all of these
# come back as they were:
#
#     {'a': 0.0, 'b': -0.0}                          plistlib {'a': 0.0, 'b': 0.0}
#     {'a': -0.0, 'b': 0.0}                          plistlib {'a': -0.0, 'b': -0.0}
#     {'b': 0.0}                                     biplist {'b': 0.0}
#     {'b': 0.0}, after another file {'b': -0.0}    biplist {'b': -0.0}
#
# 1, 1.0 and true are kept apart: the type is looked at, the bits are not.
#
# For a sync engine: the last case is the worst. A process writes the same record, unchanged, as other bytes than
# yesterday, for what somebody else's record had in it. Compare such reals by value, not by bits or canonical text,
# before calling a field changed; and a writer that shares values looks them up by their bytes, for one file.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check biplist==1.0.3

come_back() { # what the writer named first makes of the values that follow, in one process
    "$folder/venv/bin/python" - "$@" <<'PYTHON'
import ast
import plistlib
import sys
import biplist

write = {
    "biplist": biplist.writePlistToString,
    "plistlib": lambda value: plistlib.dumps(value, fmt=plistlib.FMT_BINARY),
    "xml": plistlib.dumps,
}[sys.argv[1]]
for text in sys.argv[2:]:
    print(plistlib.loads(write(ast.literal_eval(text))))
PYTHON
}
expect() { # the writer, what comes back, the values
    local seen
    seen=$(come_back "$1" "${@:3}" | paste -sd ' ')
    printf '%s, %s: %s\n' "$1" "${*:3}" "$seen"
    [ "$seen" = "$2" ] || { printf 'was %s\n' "$2" >&2; exit 1; }
}

for value in "{'a': 0.0, 'b': -0.0}" "{'a': -0.0, 'b': 0.0}" "{'a': True, 'b': 1, 'c': 1.0}"; do
    expect xml "$value" "$value"
done
expect plistlib "{'a': 0.0, 'b': 0.0}" "{'a': 0.0, 'b': -0.0}"
expect plistlib "{'a': -0.0, 'b': -0.0}" "{'a': -0.0, 'b': 0.0}"
expect plistlib "{'a': True, 'b': 1, 'c': 1.0}" "{'a': True, 'b': 1, 'c': 1.0}"
expect plistlib "{'b': -0.0} {'b': 0.0}" "{'b': -0.0}" "{'b': 0.0}"
expect biplist "{'b': 0.0} {'b': 0.0}" "{'b': 0.0}" "{'b': 0.0}"
expect biplist "{'b': -0.0} {'b': -0.0}" "{'b': -0.0}" "{'b': 0.0}"
expect biplist "{'b': 0.0} {'b': 0.0}" "{'b': 0.0}" "{'b': -0.0}"
