#!/usr/bin/env python3
"""Creates the corpora of the fuzz targets from recorded exchanges: corpus.py RECORDED.JSONL

One file per recorded response and request, named by the hash of its content: running it again adds only new ones.
"""

import base64
import hashlib
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent / "corpus"
MAX_BYTES = 64 << 10
# A part of the host identifies the provider.
HOSTS = {
    "anthropic.com": "anthropic",
    "generativelanguage": "gemini",
    "aiplatform": "gemini",
    "bedrock-runtime": "converse",
    "cohere": "cohere",
}
CHATS = ("openai", "groq", "mistral", "openrouter", "deepseek", "cerebras", "huggingface", "z.ai", "11434")


def put(target, data):
    if data and len(data) <= MAX_BYTES:
        folder = HERE / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def frames(data):
    """The frames of an Amazon event stream as lines of the `converse` target."""
    lines, at = [], 0
    while at + 16 <= len(data):
        total, header_length = struct.unpack_from(">II", data, at)
        headers, here, end = {}, at + 12, at + 12 + header_length
        while here < end:
            size = data[here]
            name = data[here + 1 : here + 1 + size].decode()
            here += 1 + size
            (length,) = struct.unpack_from(">H", data, here + 1)
            headers[name] = data[here + 3 : here + 3 + length].decode()
            here += 3 + length
        payload = data[end : at + total - 4].decode().replace("\n", " ")
        exception = headers.get(":exception-type")
        lines.append(f"!{exception} {payload}" if exception else f"{headers.get(':event-type')} {payload}")
        at += total
    return "\n".join(lines).encode()


def main(path):
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        host = row["host"]
        target = next((name for part, name in HOSTS.items() if part in host), None)
        if target is None and any(part in host for part in CHATS):
            target = "openai_chat"
        if isinstance(row["request"], dict) and ("messages" in row["request"] or "prompt" in row["request"]):
            put("requests", json.dumps(row["request"]).encode())
        if row["sse"]:
            put("sse", row["sse"].encode())
        if target is None:
            continue
        if row["response"] is not None:
            put(target, json.dumps(row["response"]).encode())
        if row["sse"]:
            put(target, row["sse"].encode())
        if row["event_stream_b64"]:
            data = base64.b64decode(row["event_stream_b64"])
            put("event_stream", data)
            put("converse", frames(data))
    for folder in sorted(HERE.iterdir()):
        print(f"{folder.name}: {len(list(folder.iterdir()))} files")


if __name__ == "__main__":
    main(sys.argv[1])
