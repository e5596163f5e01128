"""Checks written once and run twice: with an SDK's sync client and with its async one.

Not a test framework: it runs the checks it is given, prints each, and counts what failed.
"""

import asyncio
import contextlib
import inspect
import sys
import traceback


async def value(result):
    """What a call gave, whether it must be awaited or not."""
    return await result if inspect.isawaitable(result) else result


async def items(stream):
    """Everything a stream or a page gives, as a list."""
    stream = await value(stream)
    if hasattr(stream, "__aiter__"):
        return [item async for item in stream]
    return list(stream)


@contextlib.asynccontextmanager
async def entered(manager):
    """`with` or `async with`, whichever the client wants."""
    if hasattr(manager, "__aenter__"):
        async with manager as inside:
            yield inside
    else:
        with manager as inside:
            yield inside


async def refused(kind, call):
    """The error of a call that must fail with exactly this exception."""
    try:
        await value(call())
    except kind as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}"
        return error
    raise AssertionError(f"no {kind.__name__}")


async def once(check, client):
    """One check; the client is closed behind it."""
    try:
        await check(client)
    finally:
        if hasattr(client, "close"):
            await value(client.close())


async def all_of(checks, clients):
    """Runs every check with every client, in one event loop (some clients keep connections of theirs); counts what failed."""
    failed = 0
    for name, make in clients.items():
        for check in checks:
            title = f"{name}: {check.__name__.replace('_', ' ')}"
            try:
                await once(check, make())
                print(f"ok    {title}", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL  {title}\n{traceback.format_exc()}", flush=True)
    return failed


def run(checks, clients):
    """Runs every check with every client (name -> function that makes one); exits 1 when one failed."""
    failed = asyncio.run(all_of(checks, clients))
    total = len(checks) * len(clients)
    print(f"{total - failed} of {total} checks passed", flush=True)
    sys.exit(1 if failed else 0)
