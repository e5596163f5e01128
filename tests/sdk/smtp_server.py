"""A mail server (aiosmtpd) that wants STARTTLS and a password, and prints each mail it takes as a line of JSON.

Arguments: certificate, key, user, password. It refuses the first mail for addresses that begin with "later" with 451, and all
for those that begin with "never" with 550. It ends with its standard input.
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

certificate, key, user, password = sys.argv[1:]
refused = set()


class Mails:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("never"):
            return "550 no such user"
        if address.startswith("later") and address not in refused:
            refused.add(address)
            return "451 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": session.ssl is not None,
            "authenticated": session.authenticated,
            "text": envelope.content.decode(),
        }
        print(json.dumps(mail), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    good = (data.login, data.password) == (user.encode(), password.encode())
    # Not handled: the server itself responds to a wrong password.
    return AuthResult(success=good, handled=False)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)


def mailbox():
    return SMTP(
        Mails(),
        hostname="localhost",
        tls_context=context,
        require_starttls=True,
        authenticator=authenticate,
        auth_required=True,
    )


async def serve():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(mailbox, "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(serve())
