#!/usr/bin/env python3
"""Plays a script of messages to server_model.py without sockets.

Reads JSON lines: ["connect", connection, offer], ["message", connection, head, body in hex] or
["disconnect", connection].  Writes one line for each: the list of what the model did about it,
[connection, message in hex] or [connection, null] for a connection that it dropped.

Salts are random, so a head names them: {f:PARTITION:IDENT} is the salt of a client file and
{v:PARTITION:VERSION} that of a server version; both are 0 if there is none.
"""
import json
import re
import sys

import server_model


class Bridge:
    def __init__(self):
        self.realms, self.connections, self.done = {}, {}, []

    def connect(self, number, offer):
        choice = server_model.negotiate([element.strip() for element in offer.split(",")])
        connection = Recorded(self, number, choice.version)
        self.connections[number] = connection
        if problem := 114 if choice.flexible else 105 if choice.version not in server_model.VERSIONS else None:
            connection.fail(server_model.SyncError(problem))

    def message(self, number, head, body):
        if connection := self.connections.get(number):
            head = re.sub(r"\{(\w):([^:]*):(\d+)\}", self.salt, head)
            connection.receive(head.encode() + b"\n" + bytes.fromhex(body))

    def disconnect(self, number):
        if connection := self.connections.pop(number, None):
            connection.end_sessions()

    def salt(self, match):
        kind, partition, number = match[1], match[2], int(match[3])
        realm = self.realms.get(("", partition.encode()))
        if kind == "f" and realm and number < len(realm.files):
            return str(realm.files[number].salt)
        if kind == "v" and realm and number <= realm.version:
            return str(realm.salt_of(number))
        return "0"


class Recorded(server_model.Connection):
    """A connection whose messages go into the bridge's list."""

    def __init__(self, bridge, number, version):
        super().__init__(None, None, version, "", "", bridge.realms)
        self.bridge, self.number = bridge, number

    def receive(self, message):
        if self.failed:
            return
        try:
            self.dispatch(message)
        except server_model.SyncError as error:
            self.fail(error)

    def fail(self, error):
        self.failed = True
        self.end_sessions()
        self.send_error(error, 0)

    def send_frame(self, opcode, data):
        self.bridge.done.append([self.number, data.hex()])

    def abort(self, why):
        self.end_sessions()
        self.bridge.connections.pop(self.number, None)
        self.bridge.done.append([self.number, None])


def main():
    bridge = Bridge()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        if name == "restart":
            bridge = Bridge()
        else:
            getattr(bridge, name)(*arguments)
        print(json.dumps(bridge.done))
        bridge.done = []


if __name__ == "__main__":
    main()
