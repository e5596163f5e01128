"""What a provider says, in the words of each provider: a reply as the bytes of a stream or of one body.

A reply is text, calls of tools, and the tokens it reports. It knows no conversation and no socket (`provider.py` does).
"""
import base64
import json
import struct
import zlib

PIECES = 3
THOUGHT = "First the notes, then the check."
# What a provider signs or encrypts, which must come back with the calls.
SIGNATURE = base64.b64encode(b"signed by the provider").decode()


class Call:
    """A call of a tool: its arguments are an object, or the text of a freeform tool."""

    def __init__(self, name, arguments, ident):
        self.name, self.arguments, self.id = name, arguments, ident

    @property
    def text(self):
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    @property
    def object(self):
        """As a provider without freeform tools has it: the gateway declares such a tool as a function of one text."""
        return {"input": self.arguments} if isinstance(self.arguments, str) else self.arguments


class Reply:
    def __init__(self, text="", calls=(), tokens=(1200, 40), thinks=False):
        self.text, self.calls, self.tokens, self.thinks = text, list(calls), tokens, thinks


def pieces(text):
    size = max(1, -(-len(text) // PIECES))
    return [text[at:at + size] for at in range(0, len(text), size)]


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def data(value):
    return f"data: {compact(value)}\n\n".encode()


def event(value):
    return f"event: {value['type']}\n".encode() + data(value)


# OpenAI: responses

def responses_items(reply):
    items = []
    if reply.thinks:
        summary = [{"type": "summary_text", "text": THOUGHT}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": SIGNATURE})
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        items.append({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content})
    for call in reply.calls:
        item = {"id": "fc_" + call.id, "call_id": call.id, "name": call.name, "status": "completed"}
        if isinstance(call.arguments, str):
            items.append({"type": "custom_tool_call", **item, "input": call.arguments})
        else:
            items.append({"type": "function_call", **item, "arguments": call.text})
    return items


def responses_object(reply, model, status, output):
    read, written = reply.tokens
    usage = {
        "input_tokens": read, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": read + written,
    }
    return {
        "id": "resp_1", "object": "response", "created_at": 1795000000, "status": status, "error": None,
        "incomplete_details": None, "instructions": None, "model": model, "output": output, "parallel_tool_calls": True,
        "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0, "metadata": {},
        "usage": usage if status == "completed" else None,
    }


def responses(reply, model):
    return compact(responses_object(reply, model, "completed", responses_items(reply))).encode()


def responses_stream(reply, model):
    numbers = iter(range(10_000))

    def numbered(name, **members):
        return event({"type": name, **members, "sequence_number": next(numbers)})

    start = responses_object(reply, model, "in_progress", [])
    yield numbered("response.created", response=start)
    yield numbered("response.in_progress", response=start)
    for index, item in enumerate(responses_items(reply)):
        place = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "reasoning":
            yield numbered("response.output_item.added", output_index=index, item={**item, "summary": []})
            yield numbered("response.output_item.done", output_index=index, item=item)
            continue
        begun = {**item, "status": "in_progress"}
        begun.update({name: empty for name, empty in (("content", []), ("arguments", ""), ("input", "")) if name in item})
        yield numbered("response.output_item.added", output_index=index, item=begun)
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield numbered("response.content_part.added", **place, content_index=0, part=part)
            for piece in pieces(reply.text):
                yield numbered("response.output_text.delta", **place, content_index=0, delta=piece, logprobs=[])
            yield numbered("response.output_text.done", **place, content_index=0, text=reply.text, logprobs=[])
            yield numbered("response.content_part.done", **place, content_index=0, part=item["content"][0])
        else:
            member = "input" if item["type"] == "custom_tool_call" else "arguments"
            name = "custom_tool_call_input" if member == "input" else "function_call_arguments"
            for piece in pieces(item[member]):
                yield numbered(f"response.{name}.delta", **place, delta=piece)
            yield numbered(f"response.{name}.done", **place, **{member: item[member]})
        yield numbered("response.output_item.done", output_index=index, item=item)
    done = responses_object(reply, model, "completed", responses_items(reply))
    yield numbered("response.completed", response=done)


# OpenAI and its hosts: chat completions

def chat_head(model, kind):
    return {"id": "chatcmpl-1", "object": kind, "created": 1795000000, "model": model}


def chat_usage(reply):
    read, written = reply.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def chat_calls(reply, indexed=False):
    calls = []
    for index, call in enumerate(reply.calls):
        entry = {"index": index} if indexed else {}
        function = {"name": call.name, "arguments": compact(call.object)}
        calls.append({**entry, "id": call.id, "type": "function", "function": function})
    return calls


def chat(reply, model):
    message = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = chat_calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}
    return compact({**chat_head(model, "chat.completion"), "choices": [choice], "usage": chat_usage(reply)}).encode()


def chat_stream(reply, model):
    head = chat_head(model, "chat.completion.chunk")

    def chunk(delta, finish=None):
        return data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.text):
        yield chunk({"content": piece})
    for call in chat_calls(reply, indexed=True):
        arguments = call["function"]["arguments"]
        yield chunk({"tool_calls": [{**call, "function": {"name": call["function"]["name"], "arguments": ""}}]})
        for piece in pieces(arguments):
            yield chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    yield data({**head, "choices": [], "usage": chat_usage(reply)})
    yield b"data: [DONE]\n\n"


# Anthropic

def anthropic_blocks(reply):
    blocks = [{"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}] if reply.thinks else []
    blocks += [{"type": "text", "text": reply.text}] if reply.text else []
    return blocks + [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.object} for call in reply.calls]


def anthropic_message(reply, model, content, stop, written):
    usage = {
        "input_tokens": reply.tokens[0], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": written,
    }
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": stop,
        "stop_sequence": None, "usage": usage,
    }


def anthropic_stop(reply):
    return "tool_use" if reply.calls else "end_turn"


def anthropic(reply, model):
    message = anthropic_message(reply, model, anthropic_blocks(reply), anthropic_stop(reply), reply.tokens[1])
    return compact(message).encode()


# The member of a block that comes in pieces, how it begins, and the type and member of a piece.
ANTHROPIC_DELTAS = {
    "text": ("text", "", "text_delta", "text"),
    "thinking": ("thinking", "", "thinking_delta", "thinking"),
    "tool_use": ("input", {}, "input_json_delta", "partial_json"),
}


def anthropic_stream(reply, model):
    yield event({"type": "message_start", "message": anthropic_message(reply, model, [], None, 1)})
    for index, block in enumerate(anthropic_blocks(reply)):
        member, empty, kind, name = ANTHROPIC_DELTAS[block["type"]]
        begun = {**block, member: empty, **({"signature": ""} if member == "thinking" else {})}
        yield event({"type": "content_block_start", "index": index, "content_block": begun})
        if index == 0:
            yield event({"type": "ping"})
        value = block[member]
        deltas = [{"type": kind, name: piece} for piece in pieces(value if isinstance(value, str) else compact(value))]
        if member == "thinking":
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        for delta in deltas:
            yield event({"type": "content_block_delta", "index": index, "delta": delta})
        yield event({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": anthropic_stop(reply), "stop_sequence": None}
    yield event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": reply.tokens[1]}})
    yield event({"type": "message_stop"})


# Google

def gemini_response(reply, model, parts, last):
    read, written = reply.tokens
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    usage = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "resp-1"}


def gemini_calls(reply):
    return [
        {"functionCall": {"name": call.name, "args": call.object}, **({"thoughtSignature": SIGNATURE} if first else {})}
        for first, call in ((index == 0, call) for index, call in enumerate(reply.calls))
    ]


def gemini_thought(reply):
    return [{"text": THOUGHT, "thought": True}] if reply.thinks else []


def gemini(reply, model):
    parts = gemini_thought(reply) + ([{"text": reply.text}] if reply.text else []) + gemini_calls(reply)
    return compact(gemini_response(reply, model, parts, True)).encode()


def gemini_stream(reply, model):
    texts = gemini_thought(reply) + [{"text": piece} for piece in pieces(reply.text)]
    for part in texts:
        yield data(gemini_response(reply, model, [part], False))
    for part in gemini_calls(reply):
        yield data(gemini_response(reply, model, [part], False))
    yield data(gemini_response(reply, model, [{"text": ""}], True))


# Amazon Bedrock: Converse

def bedrock_usage(reply):
    read, written = reply.tokens
    return {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}


def bedrock_stop(reply):
    return "tool_use" if reply.calls else "end_turn"


def bedrock(reply, _model):
    thought = {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}
    content = [{"reasoningContent": thought}] if reply.thinks else []
    content += [{"text": reply.text}] if reply.text else []
    content += [{"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.object}} for call in reply.calls]
    output = {"message": {"role": "assistant", "content": content}}
    stop = bedrock_stop(reply)
    return compact(
        {"output": output, "stopReason": stop, "usage": bedrock_usage(reply), "metrics": {"latencyMs": 5}}
    ).encode()


def frame(name, payload):
    """One message of Amazon's event streams: lengths, headers, payload, checksums."""
    def header(key, value):
        return struct.pack(">B", len(key)) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()

    headers = header(":event-type", name) + header(":content-type", "application/json") + header(":message-type", "event")
    body = compact(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    message = prelude + headers + body
    return message + struct.pack(">I", zlib.crc32(message))


def bedrock_stream(reply, _model):
    yield frame("messageStart", {"role": "assistant"})
    index = 0
    if reply.thinks:
        for delta in ({"text": THOUGHT}, {"signature": SIGNATURE}):
            yield frame("contentBlockDelta", {"contentBlockIndex": index, "delta": {"reasoningContent": delta}})
        yield frame("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    if reply.text:
        for piece in pieces(reply.text):
            yield frame("contentBlockDelta", {"contentBlockIndex": index, "delta": {"text": piece}})
        yield frame("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    for call in reply.calls:
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        yield frame("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for piece in pieces(compact(call.object)):
            yield frame("contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}})
        yield frame("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    yield frame("messageStop", {"stopReason": bedrock_stop(reply)})
    yield frame("metadata", {"usage": bedrock_usage(reply), "metrics": {"latencyMs": 5}})


class Dialect:
    """How one operation of a provider responds, and what its errors look like."""

    def __init__(self, whole, stream, kind, error, too_long):
        self.whole, self.stream, self.kind, self.error, self.too_long = whole, stream, kind, error, too_long

    def refusal(self, status):
        """The body of a refusal: by a rate (429), or because the conversation is too long (400)."""
        return self.error(status, self.too_long if status == 400 else "Rate limit reached, slow down.")


def openai_error(status, message):
    kind, code = ("invalid_request_error", "context_length_exceeded") if status == 400 else ("requests", "rate_limit_exceeded")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic_error(status, message):
    kind = "invalid_request_error" if status == 400 else "rate_limit_error"
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def gemini_error(status, message):
    return {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT" if status == 400 else "RESOURCE_EXHAUSTED"}}


def bedrock_error(_status, message):
    return {"message": message}


EVENTS = "text/event-stream"
RESPONSES = Dialect(
    responses, responses_stream, EVENTS, openai_error,
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
)
CHAT = Dialect(
    chat, chat_stream, EVENTS, openai_error,
    "This model's maximum context length is 131072 tokens. However, your messages resulted in 190000 tokens.",
)
ANTHROPIC = Dialect(
    anthropic, anthropic_stream, EVENTS, anthropic_error, "prompt is too long: 212000 tokens > 200000 maximum",
)
GEMINI = Dialect(
    gemini, gemini_stream, EVENTS, gemini_error,
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
)
BEDROCK = Dialect(
    bedrock, bedrock_stream, "application/vnd.amazon.eventstream", bedrock_error, "Input is too long for requested model.",
)
