"""Responses of providers with every documented member and value, made from the types that their SDKs publish.

Usage: published_responses.py FILE. Each line has provider, model, label (what the response is about), streamed and body.
"""

import json
import sys

import bedrock_shapes
from anthropic.types.beta import BetaMessage
from cohere.v2.types.v2chat_response import V2ChatResponse
from google.genai import types as gemini
from mistralai.client.models import ChatCompletionResponse as MistralResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from type_checker import members
from type_values import forms

DONE = "data: [DONE]\n\n"


def varied(base, tp, depth, skip=()):
    """The base, and the base with one member at a time in each of its forms."""
    yield "", base
    for name, (hint, _) in members(tp).items():
        if name not in skip:
            for label, value in forms(hint, name, depth):
                yield f"{name}{label}", {**base, name: value}


def gemini_responses():
    part = {"text": "Hello."}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}
    base = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "g", "responseId": "r"}
    skip = ("sdkHttpResponse", "automaticFunctionCallingHistory", "parsed")
    yield from varied(base, gemini.GenerateContentResponse, 3, (*skip, "candidates"))
    for label, each in varied(candidate, gemini.Candidate, 4, ("content", "index")):
        yield f"candidates[].{label}", {**base, "candidates": [each]}
    for label, each in forms(gemini.Part, "", 4):
        content = {"role": "model", "parts": [part, each]}
        yield f"parts[]{label}", {**base, "candidates": [{**candidate, "content": content}]}


def openai_responses(tp, choice, name):
    base = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    yield from varied(base, tp, 4, ("choices", "object"))
    inner = members(tp)["choices"][0]
    for label, each in forms(inner, "", 7):
        for item in each:
            whole = {**choice, **item, "index": 0, name: {**choice[name], **item.get(name, {})}}
            yield f"choices{label}", {**base, "choices": [whole]}


def lines():
    for label, body in gemini_responses():
        yield "google", "gemini-2.5-flash", label, False, json.dumps(body)
        yield "google", "gemini-2.5-flash", label, True, f"data: {json.dumps(body)}\n\n"
    message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}
    for label, body in openai_responses(ChatCompletion, message, "message"):
        yield "openai", "gpt-4o", label, False, json.dumps(body)
    for label, body in openai_responses(MistralResponse, message, "message"):
        yield "mistral-ai", "m", label, False, json.dumps(body)
    delta = {"index": 0, "finish_reason": None, "delta": {"role": "assistant", "content": "Hello."}}
    for label, body in openai_responses(ChatCompletionChunk, delta, "delta"):
        chunk = {**body, "object": "chat.completion.chunk"}
        end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield "openai", "gpt-4o", label, True, f"data: {json.dumps(chunk)}\n\ndata: {json.dumps(end)}\n\n{DONE}"
    text = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    base = {"id": "r", "finish_reason": "COMPLETE", "message": text}
    for label, body in varied(base, V2ChatResponse, 5):
        yield "cohere", "command-a-03-2025", label, False, json.dumps(body)
    usage = {"input_tokens": 3, "output_tokens": 4}
    base = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello."}]}
    base |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    for label, body in varied(base, BetaMessage, 5):
        yield "anthropic", "claude-sonnet-4-5", label, False, json.dumps(body)
    for model in ("amazon.nova-pro-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"):
        for label, body in bedrock_shapes.responses():
            yield "bedrock", model, label, False, json.dumps(body)


with open(sys.argv[1], "w", encoding="utf-8") as out:
    for provider, model, label, streamed, body in lines():
        line = {"provider": provider, "model": model, "label": label, "streamed": streamed, "body": body}
        out.write(json.dumps(line) + "\n")
