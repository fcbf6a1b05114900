"""Converts property lists with plistlib, as Tools.swift asks: see there for the frames."""

import plistlib
import struct
import sys

FORMS = {b"x": plistlib.FMT_XML, b"b": plistlib.FMT_BINARY}


def answer(kind, content):
    sys.stdout.buffer.write(kind + struct.pack(">I", len(content)) + content)
    sys.stdout.buffer.flush()


while form := sys.stdin.buffer.read(1):
    (count,) = struct.unpack(">I", sys.stdin.buffer.read(4))
    document = sys.stdin.buffer.read(count)
    try:
        value = plistlib.loads(document)
        answer(b"o", plistlib.dumps(value, fmt=FORMS[form]))
    except Exception as error:
        answer(b"e", repr(error).encode())
