"""A WebSocket of text messages, as a client has it."""

import os
import socket
import struct


class Streaming:
    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.input = self.socket.makefile("rb")
        status = self.input.readline()
        assert b" 101 " in status, status
        while self.input.readline() != b"\r\n":
            pass

    def send(self, text):
        payload, mask = text.encode(), os.urandom(4)
        length = struct.pack("!B", 0x80 | len(payload)) if len(payload) < 126 else struct.pack("!BH", 0xFE, len(payload))
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        self.socket.sendall(b"\x81" + length + mask + masked)

    def receive(self):
        """The next message, whose frames may be several."""
        message = b""
        while True:
            first, length = self.input.read(2)
            if length == 126:
                (length,) = struct.unpack("!H", self.input.read(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self.input.read(8))
            payload = self.input.read(length)
            assert first & 0xF != 8, f"the server has closed the socket: {payload!r}"
            message += payload
            if first & 0x80:
                return message.decode()
