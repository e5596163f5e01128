"""A client of the official Python SDK, up to 2025-11-25, that can be asked for what MCP servers request while they carry out a call.

Usage: mcp_callbacks.py URL TOOL. Calls the tool, and prints one line of JSON: its result, and what reached the callbacks.
"""

import asyncio
import json
import sys

from mcp import Client
from mcp.types import CreateMessageResult, ElicitResult, TextContent

FOUND = {"progress": [], "elicited": [], "sampled": []}


async def elicit(_context, params):
    FOUND["elicited"].append(params.message)
    return ElicitResult(action="accept", content={})


async def sample(_context, params):
    FOUND["sampled"].append(params.messages[0].content.text)
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Hi"), model="m")


async def note(progress, total, _message):
    FOUND["progress"].append([progress, total])


async def main(url, tool):
    async with Client(url, mode="legacy", elicitation_callback=elicit, sampling_callback=sample) as client:
        called = await client.call_tool(tool, {}, progress_callback=note)
        print(json.dumps({"result": called.content[0].text, **FOUND}))


asyncio.run(main(*sys.argv[1:]))
