"""MCP servers over streamable HTTP, by the official Python SDK: what the gateway's metadata are synchronised from.

Usage: mcp_server.py. Prints a line `{"port": n}` when it listens on 127.0.0.1, and ends when its standard input does.
`/stateful/mcp` (sessions, responses as events), `/stateless/mcp` (no sessions, JSON responses) and `/guarded/mcp` (needs
`Authorization: Bearer of-the-tests`) are the same server; `/bare/mcp` has no capabilities. `/consulting/mcp` speaks no version after
2025-11-25, and its tool `consult` requests something of its client. The same tool of `/inquiring/mcp` does so as 2026-07-28 has it.
`/calls` counts the `initialize` requests of each.
"""

import asyncio
import collections
import contextlib
import json
import socket
import sys
import threading

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    Icon,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

CALLS = collections.Counter()


def server():
    icons = [
        Icon(src="https://tools.example/icon.png", mime_type="image/png", sizes=["48x48"]),
        Icon(src="javascript:alert(1)"),
    ]
    about = {"title": "Tools of the tests", "description": "Adds numbers.", "version": "1.2.3", "icons": icons}
    served = MCPServer("test-tools", **about, log_level="WARNING")

    @served.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @served.tool()
    def subtract(a: int, b: int) -> int:
        """Subtracts two numbers."""
        return a - b

    @served.prompt()
    def greeting(name: str) -> str:
        """Greets."""
        return f"Greet {name}."

    @served.resource("test://settings", name="settings")
    def settings() -> str:
        """Settings."""
        return "{}"

    return served


def consulting():
    served = MCPServer("consulting", log_level="WARNING")

    @served.tool()
    async def consult(context: Context) -> str:
        """Asks the user, the model and the host of its client, as far as these can be asked."""
        session, request = context.session, context.request_id
        await context.report_progress(1, 4)
        words = [SamplingMessage(role="user", content=TextContent(type="text", text="Hello"))]
        requests = [
            lambda: session.elicit_form("Which?", {"type": "object", "properties": {}}, related_request_id=request),
            lambda: session.create_message(words, max_tokens=9, related_request_id=request),
        ]
        codes = []
        for send in requests:
            try:
                await send()
                codes.append(0)
            except MCPError as error:
                codes.append(error.error.code)
        return json.dumps(codes)

    return served


def inquiring():
    served = MCPServer("inquiring", log_level="WARNING")
    params = ElicitRequestFormParams(message="Which?", requested_schema={"type": "object", "properties": {}})

    @served.tool()
    async def consult(context: Context) -> str | InputRequiredResult:
        """Needs to know something of the user."""
        given = (context.input_responses or {}).get("which")
        if isinstance(given, ElicitResult):
            return given.action
        return InputRequiredResult(input_requests={"which": ElicitRequest(params=params)}, request_state="begun")

    return served


class Counted:
    """Counts `initialize` requests; with `secret`, refuses requests without it; if it `is_old`, requests of 2026-07-28."""

    def __init__(self, name, app, secret=None, is_old=False):
        self.name, self.app, self.secret, self.is_old = name, app, secret, is_old

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        sent = dict(scope["headers"]).get(b"authorization", b"").decode()
        if self.secret and sent != f"Bearer {self.secret}":
            response = JSONResponse({"error": f"wrong credentials: {sent}"}, status_code=401)
            return await response(scope, receive, send)
        message = await receive()
        if b'"initialize"' in message.get("body", b""):
            CALLS[self.name] += 1
        if self.is_old and b'"server/discover"' in message.get("body", b""):
            return await JSONResponse({"error": "no session"}, status_code=400)(scope, receive, send)
        first = [message]

        async def again():
            return first.pop() if first else await receive()

        return await self.app(scope, again, send)


async def calls(_request):
    return JSONResponse(dict(CALLS))


def main():
    servers = {"stateful": server(), "stateless": server(), "guarded": server(), "bare": Server("bare")}
    servers |= {"consulting": consulting(), "inquiring": inquiring()}
    plain = {"json_response": True, "stateless_http": True}
    apps = {
        name: served.streamable_http_app(**(plain if name == "stateless" else {})) for name, served in servers.items()
    }

    @contextlib.asynccontextmanager
    async def lifespan(_app):
        async with contextlib.AsyncExitStack() as stack:
            for served in servers.values():
                await stack.enter_async_context(served.session_manager.run())
            yield

    secrets = {"guarded": "of-the-tests"}
    mounts = [Mount(f"/{name}", Counted(name, app, secrets.get(name), name == "consulting")) for name, app in apps.items()]
    app = Starlette(routes=[Route("/calls", calls), *mounts], lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning"))

    def until_input_ends():
        sys.stdin.read()
        running.should_exit = True
        running.force_exit = True

    threading.Thread(target=until_input_ends, daemon=True).start()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    asyncio.run(running.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
