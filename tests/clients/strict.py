"""What each provider refuses in a conversation with tools: `complaints(path, body)` lists it, empty for a good request.

Only rules that the vendors document or whose refusals are reported; it judges no single value of a parameter.
"""
import re

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONG_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
IDENT = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# The members of Google's `Schema` (https://ai.google.dev/api/caching#Schema); others are a 400 in `parameters`.
GEMINI_SCHEMA = set(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties minLength "
    "maxLength pattern example anyOf propertyOrdering default items minimum maximum".split()
)
GEMINI_PARTS = {"text", "functionCall", "functionResponse", "inlineData", "fileData", "thought", "thoughtSignature"}
CHAT_PARTS = {"text", "image_url", "input_audio", "file", "refusal"}


def complaints(path, body):
    for end, judge in JUDGES:
        if re.search(end, path):
            return list(judge(body))
    return []


def names(found, rule):
    for name in found:
        if not rule.fullmatch(name or ""):
            yield f"a tool is named {name!r}"
    if len(set(found)) != len(found):
        yield "two tools have one name"


def answered(calls, results, what):
    """Calls of one turn and the results behind it, by their ids."""
    if sorted(calls) != sorted(results):
        yield f"{what}: results {results} for calls {calls}"
    for ident in calls:
        if not IDENT.fullmatch(ident or ""):
            yield f"{what}: the id {ident!r}"


def chat(body):
    yield from names([tool["function"]["name"] for tool in body.get("tools") or []], NAME)
    open_calls, results = [], []
    for at, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content")
        if role == "tool":
            results.append(message["tool_call_id"])
            continue
        yield from answered(open_calls, results, f"messages[{at}]")
        open_calls, results = [call["id"] for call in message.get("tool_calls") or []], []
        if role not in ("system", "developer", "user", "assistant"):
            yield f"messages[{at}]: the role {role}"
        if content in (None, "", []) and not open_calls:
            yield f"messages[{at}]: no content"
        for part in content if isinstance(content, list) else []:
            if part["type"] not in CHAT_PARTS:
                yield f"messages[{at}]: a part of type {part['type']}"
        for call in message.get("tool_calls") or []:
            yield from names([call["function"]["name"]], NAME)
    yield from answered(open_calls, results, "the end")


def responses(body):
    declared = [tool for tool in body.get("tools") or [] if "name" in tool]
    yield from names([tool["name"] for tool in declared], NAME)
    items = body["input"] if isinstance(body["input"], list) else []
    for kind in ("function_call", "custom_tool_call"):
        calls = [item["call_id"] for item in items if item.get("type") == kind]
        results = [item["call_id"] for item in items if item.get("type") == f"{kind}_output"]
        yield from answered(calls, results, kind)


def anthropic(body):
    yield from names([tool["name"] for tool in body.get("tools") or []], LONG_NAME)
    pending = []
    for at, message in enumerate(body["messages"]):
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        if message["role"] == "system":
            continue  # Claude Code's own, with the beta for it
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        yield from answered(pending, results, f"messages[{at}]")
        if results and [block["type"] for block in blocks[:len(results)]] != ["tool_result"] * len(results):
            yield f"messages[{at}]: the results are not first"
        pending = [block["id"] for block in blocks if block["type"] == "tool_use"]
        is_thinking = (body.get("thinking") or {}).get("type") == "enabled"
        if pending and is_thinking and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
            yield f"messages[{at}]: calls without the thinking before them"
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                yield f"messages[{at}]: a text without characters"
    yield from answered(pending, [], "the end")
    if not body.get("max_tokens"):
        yield "no max_tokens"


def gemini_schema(schema, at):
    for key in set(schema) - GEMINI_SCHEMA:
        yield f"{at}: the keyword {key}"
    for name, inner in (schema.get("properties") or {}).items():
        yield from gemini_schema(inner, f"{at}.{name}")
    for inner in [schema.get("items"), *(schema.get("anyOf") or [])]:
        if isinstance(inner, dict):
            yield from gemini_schema(inner, at)


def gemini(body):
    for tool in body.get("tools") or []:
        declared = tool.get("functionDeclarations") or []
        yield from names([each["name"] for each in declared], GEMINI_NAME)
        for each in declared:
            yield from gemini_schema(each.get("parameters") or {}, each["name"])
    pending = []
    for at, content in enumerate(body["contents"]):
        parts = content["parts"]
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        results = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if sorted(pending) != sorted(results):
            yield f"contents[{at}]: results {results} for calls {pending}"
        pending = calls
        if content["role"] not in ("user", "model") or not parts:
            yield f"contents[{at}]: role {content['role']}, {len(parts)} parts"
        if calls and "thoughtSignature" not in next(part for part in parts if "functionCall" in part):
            # https://ai.google.dev/gemini-api/docs/thought-signatures: Gemini 3 refuses a step whose first call lost its signature.
            yield f"contents[{at}]: the first call has no signature"
        for part in parts:
            if set(part) - GEMINI_PARTS:
                yield f"contents[{at}]: the members {set(part) - GEMINI_PARTS}"
    if body["contents"][0]["role"] != "user":
        yield "the model speaks first"


def bedrock(body):
    tools = [tool["toolSpec"] for tool in (body.get("toolConfig") or {}).get("tools", []) if "toolSpec" in tool]
    yield from names([tool["name"] for tool in tools], NAME)
    pending, before, has_calls = [], "assistant", False
    for at, message in enumerate(body["messages"]):
        blocks, role = message["content"], message["role"]
        if role == before or not blocks:
            yield f"messages[{at}]: {role} after {before}, {len(blocks)} blocks"
        results = [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]
        yield from answered(pending, results, f"messages[{at}]")
        pending = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        has_calls, before = has_calls or bool(pending), role
        for block in blocks:
            if "text" in block and not block["text"].strip():
                yield f"messages[{at}]: a text without characters"
    if has_calls and not tools:
        yield "calls of tools, and no toolConfig"


JUDGES = (
    (r"/responses$", responses),
    (r"/chat/completions$", chat),
    (r"/messages$", anthropic),
    (r"GenerateContent$|generateContent$", gemini),
    (r"/converse(-stream)?$", bedrock),
)
