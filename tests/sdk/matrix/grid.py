"""Every check of a client library with every provider: the client has a base URL and a key, the model's name has the provider.

Environment: BASE_URL (with /v1), KEY (a service key), MODELS (`@provider/model`, separated by spaces: one for each dialect that the
emulator speaks and some that differ from OpenAI's in details). Not a test framework: it counts what failed and prints that.
"""

import asyncio
import functools
import os
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from both import entered, items, refused, value  # noqa: E402, F401 (for the files beside this one)

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["KEY"]
# For clients that append the version themselves.
ROOT = BASE_URL.removesuffix("/v1")
WRONG_KEY = "sk-not-a-service-key-0123456789"
HELLO = "Say hello."
CALL_THE_TOOL = "Please call the tool."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def script(model, text):
    """The model with a script for the emulator."""
    return f"{model}?{text}"


async def checked(checks, make, model):
    """The checks that failed with this model, each with its trace."""
    failed = []
    for check in checks:
        client = make()
        try:
            await check(client, model)
        except Exception:
            failed.append(f"FAIL  {check.__name__.replace('_', ' ')}\n{traceback.format_exc()}")
        finally:
            if hasattr(client, "close"):
                await value(client.close())
    return failed


async def every(checks, clients):
    failures = 0
    for model in os.environ["MODELS"].split():
        for name, make in clients.items():
            failed = await checked(checks, make, model)
            failures += len(failed)
            print(f"{len(checks) - len(failed):2} of {len(checks)}  {name} {model}", *failed, sep="\n", flush=True)
    return failures


def run(checks, clients):
    """Runs every check with every model and every client (name -> function that makes one); exits 1 when one failed."""
    sys.exit(1 if asyncio.run(every(checks, clients)) else 0)


def kinds(*classes, **arguments):
    """A client library's classes with the same arguments, by name."""
    return {each.__name__: functools.partial(each, **arguments) for each in classes}
