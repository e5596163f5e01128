"""A client of the official Python SDK that uses what an MCP endpoint has.

Usage: mcp_client.py URL SERVER MODE. SERVER is what names begin with; MODE is `legacy` (initialize), `auto` or a version. Prints one line of JSON.
"""

import asyncio
import json
import sys

from mcp import Client


async def main(url, server, mode):
    async with Client(url, mode=mode) as client:
        tools = await client.list_tools()
        called = await client.call_tool(f"{server}__add", {"a": 2, "b": 40})
        failed = await client.call_tool(f"{server}__add", {"a": "x", "b": 40})
        prompt = await client.get_prompt(f"{server}__greeting", {"name": "Ann"})
        resource = await client.read_resource("test://settings")
        try:
            await client.call_tool(f"{server}__none", {})
            unknown = None
        except Exception as error:
            unknown = str(error)
        found = {
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "sum": called.content[0].text,
            "structured": called.structured_content,
            "failed": failed.is_error,
            "prompt": prompt.messages[0].content.text,
            "resource": resource.contents[0].text,
            "unknown": unknown,
        }
        print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
