"""Servers of e-mails for tests, by aiosmtpd. Its arguments are a certificate and its key. The first line of the output
has the ports, each further one an e-mail that was taken, both in JSON."""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 5.1.1 there is no such mailbox"
        if address.startswith("dropped"):
            server.transport.abort()
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        if envelope.rcpt_tos[0].startswith("echoed"):
            link = next(word for word in message.get_content().split() if word.startswith("https://"))
            return f"554 nobody may open {link}"
        say({
            "from": envelope.mail_from, "to": envelope.rcpt_tos, "tls": session.ssl is not None,
            "user": session.auth_data if session.authenticated else None, "headers": dict(message.items()),
            "text": message.get_content().replace("\r\n", "\n"), "lines": max(len(line) for line in envelope.content.split(b"\r\n")),
        })
        return "250 taken"


def log_in(server, session, envelope, mechanism, data):
    isRight = data.login == b"app" and data.password == "pass word".encode()
    return AuthResult(success=isRight, handled=isRight, auth_data=f"{data.login.decode()} by {mechanism}")


async def talk_before_tls(reader, writer):
    """Has an answer in the same packet as the one that lets TLS begin."""
    writer.write(b"220 hello\r\n")
    await reader.readline()
    writer.write(b"250-hello\r\n250 STARTTLS\r\n")
    await reader.readline()
    writer.write(b"220 go on\r\n250 AUTH PLAIN\r\n")
    await reader.read()


async def be_silent(reader, writer):
    say("connected")
    await reader.read()


def say(value):
    print(json.dumps(value), flush=True)


async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    log_ins = {"authenticator": log_in, "auth_required": True}
    kinds = {
        "open": {},
        "starttls": {"tls_context": context, "require_starttls": True, **log_ins},
        "login": {"tls_context": context, "auth_exclude_mechanism": ["PLAIN"], **log_ins},
        "bare": {"auth_require_tls": False, **log_ins},
        "tls": {"auth_require_tls": False, **log_ins},
    }
    loop, ports, servers = asyncio.get_running_loop(), {}, []
    for kind, options in kinds.items():
        secure = {"ssl": context} if kind == "tls" else {}
        make = lambda options=options: SMTP(Handler(), loop=loop, **options)
        servers.append(await loop.create_server(make, "127.0.0.1", 0, **secure))
        ports[kind] = servers[-1].sockets[0].getsockname()[1]
    for kind, answer in {"talkative": talk_before_tls, "silent": be_silent}.items():
        servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        ports[kind] = servers[-1].sockets[0].getsockname()[1]
    say(ports)
    # Until the test that has started it is gone.
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
