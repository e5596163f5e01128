"""Parses every response of the gateway without leniency, by the pydantic types of OpenAI's, Anthropic's and Google's SDKs.

Usage: strict_responses.py FILE, a JSON object a line: client (the path of the dialect), streamed, strict, provider, id, body.
Whole responses by the type of the response; streams event by event by the union of events, by their order, and as the SDK's
own accumulator builds them. Prints counts and every class of failure; fails if there is any.
"""

import collections
import functools
import json
import sys
import warnings

import anthropic
import httpx2 as httpx
import openai
import pydantic
from anthropic.types import ErrorResponse, Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from google.genai import types as genai_types
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from type_checker import problems

GEMINI = "models/m:generateContent"
WHOLE = {"chat/completions": ChatCompletion, "messages": Message, "responses": Response}
EVENTS = {"chat/completions": ChatCompletionChunk, "messages": RawMessageStreamEvent, "responses": ResponseStreamEvent}
ADAPTERS = {}
# Anthropic's own responses, decoded and encoded again, keep the blocks of its betas.
BETAS = {Message: BetaMessage, RawMessageStreamEvent: BetaRawMessageStreamEvent}
# Members that no type names but that are sent on purpose, by the ends of their paths. A member that a type names is never
# tolerated.
TOLERATED = (
    # OpenAI's API sends these, its SDK has no types for them.
    ".frequency_penalty",
    ".presence_penalty",
    ".store",
    "response.function_call_arguments.done.name",
    # Older SDKs look for the error inside the event.
    "error.error",
    "chunk.choices[].delta.annotations",
    # Anthropic sends it with the first counts only, which other providers send last.
    "message_delta.usage.service_tier",
    # The gateway's own, documented in the README.
    ".provider",
    ".provider_code",
    ".reasoning_content",
    ".content_blocks",
    ".images",
    ".usage.cache_read_input_tokens",
    ".usage.cache_creation_input_tokens",
    # The thought signature of a call of Google's, which must be sent back.
    ".signature",
)


# The stream that the SDKs' clients get next, whatever they call.
SERVED = []


def serve(_):
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=SERVED[0])


OPTIONS = {"api_key": "k", "base_url": "http://127.0.0.1:9", "max_retries": 0}
OPTIONS["http_client"] = httpx.Client(transport=httpx.MockTransport(serve))
ANTHROPIC, OPENAI = anthropic.Anthropic(**OPTIONS), openai.OpenAI(**OPTIONS)


class Judge:
    """Judges one response. `own`: of Anthropic's own, with the blocks of its betas; `lenient`: with members of no type."""

    def __init__(self, client, own, lenient):
        self.client, self.own, self.lenient = client, own, lenient

    def strict(self, tp, value, path=""):
        """The problems of a value by the type checker, or by pydantic where that finds none."""
        tp = BETAS.get(tp, tp) if self.own else tp
        if tp not in ADAPTERS:
            ADAPTERS[tp] = pydantic.TypeAdapter(tp)
        every = problems(tp, value, path)
        found = [each for each in every if not self.is_tolerated(*each)]
        try:
            if found == every:
                ADAPTERS[tp].validate_json(json.dumps(value), strict=True)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            found = found or [(path, f"pydantic: {first['loc']} {first['msg']}")]
        return found

    def is_tolerated(self, path, text):
        if text == "is in no type":
            return self.own or self.lenient or path.endswith(TOLERATED)
        is_open = "content[]" in path or "content_block." in path or path.endswith(".service_tier")
        return self.lenient and is_open and "none of the" in text

    def of_whole(self, text):
        value = json.loads(text)
        if self.client == GEMINI:
            return self.of_gemini(value, last=True)
        if is_error(value) and self.client != "responses":
            return self.of_error(value)
        return self.strict(WHOLE[self.client], value)

    def of_stream(self, text):
        seen = list(events(text))
        found = []
        if self.client == GEMINI:
            named = [name for name, _ in seen if name]
            values = [json.loads(data) for _, data in seen]
            checked = (self.of_gemini(value, value is values[-1]) for value in values)
            return [("event", f"is named {name}") for name in named] + [each for one in checked for each in one]
        for name, data in seen:
            if data == "[DONE]":
                break
            value = json.loads(data)
            if self.client != "chat/completions" and name != value.get("type"):
                found.append(("event", f"is named {name}, its type is {value.get('type')}"))
            if is_error(value):
                return found + self.of_error(value)
            if value.get("type") != "ping":
                found += self.strict(EVENTS[self.client], value, value.get("type", "chunk"))
        if self.client == "chat/completions" and (not seen or seen[-1][1] != "[DONE]"):
            found.append(("", "the stream does not end in [DONE]"))
        return found or self.accumulated(text)

    def of_gemini(self, value, last):
        """The problems of a response or a chunk. Only the last one says how the response ended, and what it cost."""
        if "error" in value:
            return [] if set(value["error"]) >= {"code", "message", "status"} else [("error", "is not Google's")]
        try:
            # Unlike those of the other SDKs, these types forbid members that they do not name.
            response = genai_types.GenerateContentResponse.model_validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            # What the provider documents as an example of its blob is no base64.
            return [(str(each["loc"]), each["msg"]) for each in error.errors() if each["loc"][-1] != "sdkBlob"]
        found = []
        for candidate in response.candidates or []:
            if not candidate.content.parts or candidate.content.role != "model":
                found.append(("candidate", "has no content"))
            if bool(candidate.finish_reason) != last:
                found.append(("candidate", f"finish reason {candidate.finish_reason}, the last chunk: {last}"))
            if candidate.finish_reason and candidate.finish_reason.name not in genai_types.FinishReason.__members__:
                found.append(("candidate", f"unknown finish reason {candidate.finish_reason}"))
        return found

    def of_error(self, value):
        tp = {"messages": ErrorResponse, "responses": ResponseStreamEvent}.get(self.client, OpenAIError)
        return self.strict(tp, value, "error")

    def accumulated(self, text):
        """The problems of what the SDK builds of a stream."""
        SERVED[:] = [text.encode()]
        hello = [{"role": "user", "content": "Hello."}]
        try:
            if self.client == "messages":
                messages = ANTHROPIC.beta.messages if self.own else ANTHROPIC.messages
                with messages.stream(model="m", max_tokens=9, messages=hello) as stream:
                    final = stream.get_final_message()
                return self.strict(Message, json.loads(final.to_json()), "final")
            if self.client == "responses":
                with OPENAI.responses.stream(model="m", input="Hello.") as stream:
                    last = [event.type for event in stream][-1]
                    # It raises for a response that is not completed, which need not be a failure.
                    if last == "response.completed":
                        stream.get_final_response()
            else:
                with OPENAI.chat.completions.stream(model="m", messages=hello) as stream:
                    collections.deque(stream, 0)
                    stream.get_final_completion()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            return []
        except Exception as error:
            return [("accumulator", f"{type(error).__name__}: {str(error)[:120]}")]
        return []


def events(text):
    """Name and data of each event of a stream."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines}
        if "data" in fields:
            yield fields.get("event"), fields["data"]


def is_error(value):
    return value.get("type") == "error" or value.get("error")


class InnerError(pydantic.BaseModel):
    message: str
    type: str | None
    param: str | None
    code: str | int | None
    provider: str | None = None


class OpenAIError(pydantic.BaseModel):
    error: InnerError


@functools.cache
def judged(client, streamed, own, strict, body):
    """The problems of a response. Many generated responses of providers become the same one."""
    judge = Judge(client, own, not strict)
    try:
        return (judge.of_stream if streamed else judge.of_whole)(body)
    except (ValueError, KeyError, AttributeError) as error:
        return [("", f"{type(error).__name__}: {error}")]


def main():
    # The SDK's own doubts about its types.
    warnings.simplefilter("ignore")
    classes = collections.defaultdict(list)
    counts = collections.Counter()
    failed = collections.Counter()
    for line in open(sys.argv[1], encoding="utf-8"):
        case = json.loads(line)
        client = case["client"]
        key = (client, "streamed" if case["streamed"] else "whole")
        counts[key] += 1
        found = judged(client, case["streamed"], case["provider"] == "anthropic", case["strict"], case["body"])
        failed[key] += bool(found)
        for path, text in sorted(set(found)):
            classes[(client, path, text)].append(f"{case['provider']} {case['id']}")
    for key, count in sorted(counts.items()):
        print(f"strict SDK types, {key[0]} {key[1]}: {count - failed[key]} of {count}")
    for (client, path, text), cases in sorted(classes.items(), key=lambda each: -len(each[1])):
        print(f"  {len(cases):5} {client} {path}: {text}\n        e.g. {cases[0]}; {cases[-1]}")
    sys.exit(1 if classes else 0)


main()
