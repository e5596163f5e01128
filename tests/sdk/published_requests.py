"""Requests for every documented member of three dialects, and what each provider's published types say of them translated.

Usage: published_requests.py generate FILE, then published_requests.py judge FILE. Generated lines have client (the path of the
dialect), label (what the request is about) and body; judged ones also provider, model and either refused or sent, operation,
warnings and headers. Prints counts and every class of failure; fails if there is any.
"""

import collections
import itertools
import json
import sys

import bedrock_shapes
import typing_extensions as extensions
from anthropic.types import beta as anthropic_beta, message_create_params
from cerebras.cloud.sdk.types.chat import completion_create_params as cerebras_chat
from cohere.v2.client import V2Client
from google.genai import types as gemini
from groq.types.chat import completion_create_params as groq_chat
from mistralai.client.models import ChatCompletionRequestTypedDict as MistralRequest
from openai.types.chat import completion_create_params as openai_chat
from openai.types.responses import response_create_params as openai_responses
from type_checker import members, problems
from type_values import SCHEMA, forms

HELLO = {"role": "user", "content": "Hello."}
BETA = anthropic_beta.message_create_params.MessageCreateParamsNonStreaming
# How deep values vary: deeper levels repeat what the levels above already had.
DIALECTS = [
    ("chat/completions", openai_chat.CompletionCreateParamsNonStreaming, 7),
    ("messages", message_create_params.MessageCreateParamsNonStreaming, 6),
    ("messages", BETA, 4),
    ("responses", openai_responses.ResponseCreateParamsNonStreaming, 6),
]
SMALLEST = {
    "chat/completions": {"model": "m", "messages": [HELLO]},
    "messages": {"model": "m", "max_tokens": 4096, "messages": [HELLO]},
    "responses": {"model": "m", "input": "Hello."},
}


def generate(out):
    seen = set()
    for client, tp, depth in DIALECTS:
        known = members(tp)
        for name, (hint, _) in known.items():
            if name == "model":
                continue
            for label, value in forms(hint, name, depth - 1):
                body = whole(client, name, value)
                text = json.dumps(body)
                if (client, text) not in seen:
                    seen.add((client, text))
                    out.write(json.dumps({"client": client, "label": name + label, "body": body}) + "\n")


def whole(client, name, value):
    """A request that has one member and what belongs to it: a conversation around a message, tools for a choice."""
    body = {**SMALLEST[client]}
    if name == "messages" and client == "messages":
        body["messages"] = list(itertools.chain.from_iterable(anthropic_turns(each) for each in value))
    elif name == "messages":
        body["messages"] = list(itertools.chain.from_iterable(chat_turns(each) for each in value))
    elif name == "input" and isinstance(value, list):
        body["input"] = list(itertools.chain.from_iterable(items(each) for each in value))
    else:
        body[name] = value
    tool = {"name": "get_weather", "description": "The weather."}
    if name in ("tool_choice", "parallel_tool_calls") and "tools" not in body:
        body["tools"] = {
            "chat/completions": [{"type": "function", "function": {**tool, "parameters": SCHEMA}}],
            "messages": [{**tool, "input_schema": SCHEMA}],
            "responses": [{"type": "function", **tool, "parameters": SCHEMA, "strict": True}],
        }[client]
    if name == "function_call":
        body["functions"] = [{**tool, "parameters": SCHEMA}]
    if name == "top_logprobs" and client == "chat/completions":
        body["logprobs"] = True
    if name == "stream_options":
        body["stream"] = True
    if name == "audio":
        body["modalities"] = ["text", "audio"]
    if name == "modalities" and "audio" in value:
        body["audio"] = {"voice": "alloy", "format": "wav"}
    return body


def chat_turns(message):
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    called = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    match message["role"]:
        case "tool":
            return [HELLO, called, message]
        case "function":
            return [HELLO, {"role": "assistant", "content": None, "function_call": function}, message]
        case "assistant":
            results = [{"role": "tool", "tool_call_id": call["id"], "content": "Sunny."} for call in message.get("tool_calls", [])]
            if message.get("function_call"):
                results = [{"role": "function", "name": message["function_call"]["name"], "content": "Sunny."}]
            if not (results or message.get("content") or message.get("refusal") or message.get("audio")):
                message = {**message, "content": "Hello."}
            return [HELLO, message, *(results or [HELLO])]
        case _:
            return [message, HELLO]


def anthropic_turns(message):
    if message["role"] == "system":
        return [HELLO, {"content": "Be brief.", **message}]
    content = message["content"] if isinstance(message["content"], list) else []
    results = [block for block in content if block.get("type") == "tool_result"]
    if results:
        calls = [{"type": "tool_use", "id": block["tool_use_id"], "name": "get_weather", "input": {"city": "Paris"}} for block in results]
        return [HELLO, {"role": "assistant", "content": calls}, message]
    if any(block.get("type") in ("thinking", "redacted_thinking", "server_tool_use") for block in content):
        message = {**message, "role": "assistant"}
    calls = [block for block in content if block.get("type") == "tool_use"]
    if calls:
        results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "Sunny."} for block in calls]
        return [HELLO, {**message, "role": "assistant"}, {"role": "user", "content": results}]
    return [HELLO, message, HELLO] if message["role"] == "assistant" else [message, HELLO]


def items(item):
    call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
    hello = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}
    match item.get("type"):
        case "function_call":
            return [hello, item, {"type": "function_call_output", "call_id": item["call_id"], "output": "Sunny."}]
        case "function_call_output":
            return [hello, call, item]
        case "reasoning":
            return [hello, item, {"role": "assistant", "content": "Hello."}, hello]
        case _:
            return [item, hello]


def cohere_chat():
    """The arguments of the SDK's function are the members of the request."""
    hints = extensions.get_type_hints(V2Client.chat, include_extras=True)
    fields = {name: hint for name, hint in hints.items() if name not in ("return", "request_options")}
    required = {name: extensions.Required[hint] if name in ("model", "messages") else hint for name, hint in fields.items()}
    return extensions.TypedDict("CohereRequest", {**required, "stream": bool}, total=False)


class GeminiRequest(extensions.TypedDict, total=False):
    """The body of generateContent: <https://ai.google.dev/api/generate-content>."""

    contents: extensions.Required[list[gemini.Content]]
    systemInstruction: gemini.Content
    tools: list[gemini.Tool]
    toolConfig: gemini.ToolConfig
    safetySettings: list[gemini.SafetySetting]
    cachedContent: str
    generationConfig: gemini.GenerationConfig
    labels: dict[str, str]
    serviceTier: str
    store: bool


# Anthropic's version of before has the sampling parameters that the newest types no longer name.
class AnthropicSampling(extensions.TypedDict, total=False):
    temperature: float
    top_p: float
    top_k: int


def merged(*types):
    """One typed dictionary with the members of several."""
    fields = {}
    for tp in types:
        for name, (hint, required) in members(tp).items():
            fields[name] = extensions.Required[hint] if required else hint
    return extensions.TypedDict("Merged", {**fields, "stream": bool}, total=False)


TYPES = {
    "openai": merged(openai_chat.CompletionCreateParamsNonStreaming),
    "anthropic": merged(message_create_params.MessageCreateParamsNonStreaming, AnthropicSampling),
    "anthropic beta": merged(BETA, AnthropicSampling),
    "google": GeminiRequest,
    "vertex-ai": GeminiRequest,
    "cohere": cohere_chat(),
    "mistral-ai": MistralRequest,
    "groq": merged(groq_chat.CompletionCreateParams),
    "cerebras": merged(cerebras_chat.CompletionCreateParams),
}


# What a provider documents elsewhere: <https://console.groq.com/docs/api-reference#chat-create>.
DOCUMENTED = {("groq", ".stream_options", "is in no type")}


def found_in(case):
    provider, sent = case["provider"], case["sent"]
    if provider == "bedrock":
        return bedrock_shapes.problems(sent, case["model"])
    if provider == "anthropic" and "anthropic-beta" in case["headers"]:
        provider = "anthropic beta"
    return [each for each in problems(TYPES[provider], sent) if (provider, *each) not in DOCUMENTED]


OWN = {("chat/completions", "openai"), ("responses", "openai"), ("messages", "anthropic")}


def judge(file):
    counts, failed, refused = collections.Counter(), collections.Counter(), collections.Counter()
    classes, refusals = collections.defaultdict(list), collections.defaultdict(list)
    for line in file:
        case = json.loads(line)
        key = (case["client"], case["provider"])
        # What passes unchanged is the client's own affair.
        if key in OWN or case.get("operation") == "responses":
            continue
        counts[key] += 1
        if "refused" in case:
            refused[key] += 1
            refusals[(case["provider"], case["refused"])].append(f"{case['client']} {case['label']}")
            continue
        found = found_in(case)
        failed[key] += bool(found)
        for path, text in sorted(set(found)):
            classes[(case["provider"], path, text)].append(f"{case['client']} {case['label']}")
    for (client, provider), count in sorted(counts.items()):
        wrong, no = failed[(client, provider)], refused[(client, provider)]
        print(f"published types, {client} to {provider}: {count - wrong} of {count} ({no} refused)")
    show("refused", refusals) if "--refused" in sys.argv else None
    show("failure", classes)
    print(f"published types, in all: {sum(counts.values()) - sum(failed.values())} of {sum(counts.values())}")
    sys.exit(1 if classes else 0)


def show(title, classes):
    for key, cases in sorted(classes.items(), key=lambda each: -len(each[1])):
        print(f"  {len(cases):5} {title}: {' '.join(key)}\n        e.g. {cases[0]}; {cases[-1]}")


if sys.argv[1] == "generate":
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        generate(out)
else:
    judge(open(sys.argv[2], encoding="utf-8"))
