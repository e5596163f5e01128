"""Values of every documented form, made from the types that an SDK publishes.

Not random: for each member of each type, one value with that member in each of its forms (every literal, every alternative of
a union), the rest of the value as small as the type allows. What a text or number holds is chosen by the member's name.
"""

import enum
import typing

from type_checker import ITERABLES, LITERALS, branches, is_model, is_object, members

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMAS = {"schema", "parameters", "input_schema", "output_schema", "json_schema", "inputSchema", "responseJsonSchema", "parametersJsonSchema"}
TEXTS = {
    "url": "https://example.com/a.png",
    "uri": "https://example.com/a.png",
    "image_url": "https://example.com/a.png",
    "file_url": "https://example.com/a.pdf",
    "fileUri": "https://example.com/a.png",
    "server_url": "https://example.com/mcp",
    "data": PNG,
    "b64_json": PNG,
    "bytes": PNG,
    "file_data": f"data:application/pdf;base64,{PNG}",
    "filename": "a.pdf",
    "mimeType": "image/png",
    "arguments": '{"city": "Paris"}',
    "name": "get_weather",
    "id": "call_1",
    "call_id": "call_1",
    "tool_call_id": "call_1",
    "tool_use_id": "call_1",
    "toolUseId": "call_1",
    "signature": "c2lnbmF0dXJl",
    "thoughtSignature": "c2lnbmF0dXJl",
    "country": "FR",
    "timezone": "Europe/Paris",
    "voice": "alloy",
    "regex": "a+",
    "json": '{"city": "Paris"}',
}
NUMBERS = {
    "max_tokens": 4096,
    "max_completion_tokens": 4096,
    "max_output_tokens": 4096,
    "budget_tokens": 1024,
    "max_uses": 2,
    "top_logprobs": 2,
    "temperature": 0.5,
    "top_p": 0.5,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "n": 1,
    "token": 3,
}
DEPTH = 9


def minimal(tp, name="", depth=DEPTH):
    """The smallest value of a type."""
    return next(iter(forms(tp, name, 0 if depth < 1 else -1)))[1]


def forms(tp, name="", depth=DEPTH):
    """Pairs of a label and a value. `depth`: how many levels below vary; from 0 on only the smallest value is made."""
    first = True
    for choice in [each for each in branches(tp) if each is not type(None)] or [type(None)]:
        for label, value in single(choice, name, depth):
            yield label, value
            first = False
            if depth <= 0:
                return
    if first:
        yield "", {}


def single(tp, name, depth):
    origin = typing.get_origin(tp)
    if origin in LITERALS:
        for value in typing.get_args(tp):
            yield f"={value}", value
    elif isinstance(tp, type) and issubclass(tp, enum.Enum):
        for value in tp:
            yield f"={value.value}", value.value
    elif is_object(tp):
        yield from of_object(tp, depth)
    elif getattr(origin, "__name__", "") in ITERABLES:
        for label, value in forms(typing.get_args(tp)[0], name, depth - 1):
            yield "[]" + label, [value]
    elif tp is dict or getattr(origin, "__name__", "") in ("dict", "Mapping"):
        yield "", dictionary(tp, name)
    elif tp is type(None):
        yield "=null", None
    elif tp is bool:
        yield "=true", True
        yield "=false", False
    elif tp in (int, float):
        yield "", NUMBERS.get(name, 1 if tp is int else 0.5)
    elif tp in (object, typing.Any):
        yield "", SCHEMA if name in SCHEMAS else {"city": "Paris"}
    else:
        yield "", TEXTS.get(name, "some text")


def dictionary(tp, name):
    if name in SCHEMAS:
        return SCHEMA
    inner = (typing.get_args(tp) or (str, str))[1]
    if name == "logit_bias":
        return {"50256": 1}
    return {"city": "Paris" if inner in (object, typing.Any) else minimal(inner)}


def of_object(tp, depth):
    known = members(tp)
    base = {name: minimal(hint, name, depth) for name, (hint, required) in known.items() if required}
    if not base and is_model(tp) and known:
        yield from one_member(tp, known, {}, depth)
        return
    yield "", base
    if depth > 0:
        yield from one_member(tp, known, base, depth)


def one_member(tp, known, base, depth):
    """The base with one more member at a time. Models without required members are unions in disguise."""
    for name, (hint, required) in known.items():
        for label, value in forms(hint, name, depth - 1):
            if base.get(name) != value:
                yield f".{name}{label}", {**base, name: value}
