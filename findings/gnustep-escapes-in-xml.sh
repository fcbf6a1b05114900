#!/usr/bin/env bash
# GNUstep writes and reads escapes of its own in XML property lists: a text that mentions one is changed by reading, and
# an emoji is six letters and six more for everybody else.
#
# GNUstep base 1.28, `plutil` of Debian 12 (gnustep-base-runtime), unpacked in a temporary folder; plistlib of the
# CPython that runs this (seen with 3.11) writes the files and reads the results.
#
# Expected: XML has references and entities for what cannot stand as it is, and a backslash is a letter.
# Seen: through `plutil -convert`, the text in quotation marks:
#
#     read XML, write binary      '\U0041'      'A'
#     read XML, write binary      '\u0041 \n'   unchanged
#     read binary, write XML      '😀'          '\UD83D\UDE00'
#     read binary, write binary   both unchanged
#
# For a sync engine: the loss is silent and depends on the form, not on the content alone. A piece of source code, or
# of a Windows path, is another text after one round through XML. Speak the binary form with such a peer.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet gnustep-base-runtime libgnustep-base1.28 gnustep-base-common libobjc4 >/dev/null 2>&1
for package in *.deb; do dpkg-deb --extract "$package" tree; done
libraries="$folder/tree/usr/lib:$folder/tree/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null ||
    gcc -print-multiarch 2>/dev/null || printf '%s-linux-gnu' "$(uname -m)")"

come_back() { # the form that it reads, the one that it writes, a text as Python writes it
    python3 -c 'import plistlib, sys; form = {"xml1": plistlib.FMT_XML, "binary1": plistlib.FMT_BINARY}[sys.argv[1]]
sys.stdout.buffer.write(plistlib.dumps([eval(sys.argv[2])], fmt=form))' "$1" "$3" |
        LD_LIBRARY_PATH="$libraries" tree/usr/bin/plutil -convert "$2" -o - - 2>/dev/null |
        python3 -c 'import plistlib, sys; print(ascii(plistlib.loads(sys.stdin.buffer.read())[0]))'
}
expect() { # form read, form written, the text, what comes back
    local seen
    seen=$(come_back "$1" "$2" "$3")
    printf 'read %s, write %s: %s: %s\n' "$1" "$2" "$3" "$seen"
    [ "$seen" = "$4" ] || { printf 'was %s\n' "$4" >&2; exit 1; }
}

expect xml1 binary1 "'\\\\U0041'" "'A'"
expect xml1 binary1 "'\\\\u0041 \\\\n'" "'\\\\u0041 \\\\n'"
expect binary1 xml1 "'\\U0001f600'" "'\\\\UD83D\\\\UDE00'"
expect binary1 binary1 "'\\\\U0041'" "'\\\\U0041'"
expect binary1 binary1 "'\\U0001f600'" "'\\U0001f600'"
