"""The official OpenAI SDK against guardrails: what is denied is an exception with its results, what passes is an ordinary response.

Environment: BASE_URL (with /v1), KEY (a service key). The provider behind is the built-in emulator, whose text is "The quick brown
fox jumps over the lazy dog." and the same again. What guardrails find is not tested here.
"""

import json
import os

import openai
from both import items, refused, run, value

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["KEY"]
MODEL = "gpt-4o-mini?tokens=40"
HELLO = [{"role": "user", "content": "Say hello."}]


def none_of(text, **more):
    return {"id": "g", "contains": {"operator": "none", "words": [text]}, **more}


def guarded(client, **more):
    config = json.dumps({"provider": "@emulator", **more})
    return client.with_options(set_default_headers={"x-gateway-config": config}, max_retries=0)


def calls(client, model=MODEL, text="Say hello."):
    """Each call as a function of whether it streams."""
    messages = [{"role": "user", "content": text}]
    return {
        "chat": lambda stream: client.chat.completions.create(model=model, messages=messages, stream=stream),
        "completions": lambda stream: client.completions.create(
            model=model, prompt=text, stream=stream, max_tokens=9000
        ),
        "responses": lambda stream: client.responses.create(model=model, input=text, stream=stream),
    }


def text_of(name, item):
    """The text of a response, or of an event of a stream."""
    if name == "responses":
        if hasattr(item, "output_text"):
            return item.output_text
        return item.delta if item.type == "response.output_text.delta" else ""
    choice = item.choices[0] if item.choices else None
    if choice is None:
        return ""
    if name == "completions":
        return choice.text
    return (choice.message if hasattr(choice, "message") else choice.delta).content or ""


def check_denial(error, phase):
    assert error.status_code == 446, error
    assert error.body["type"] == "hooks_failed" and "guardrail checks" in error.message
    [hook] = error.response.json()["hook_results"][phase]
    assert (hook["id"], hook["verdict"], hook["deny"]) == ("g", False, True)


async def a_denied_request_is_a_status_error(client):
    other = guarded(client, input_guardrails=[none_of("hello", deny=True)])
    for call in calls(other).values():
        for stream in (False, True):
            error = await refused(openai.APIStatusError, lambda: call(stream))
            check_denial(error, "before_request_hooks")


async def a_denied_response_is_a_status_error(client):
    other = guarded(client, output_guardrails=[none_of("The", deny=True)])
    for call in calls(other).values():
        for stream in (False, True):
            error = await refused(openai.APIStatusError, lambda: call(stream))
            check_denial(error, "after_request_hooks")


async def a_response_that_is_held_back_and_denied_is_a_status_error(client):
    few = {"id": "g", "wordCount": {"minWords": 0, "maxWords": 3}, "deny": True}
    for call in calls(guarded(client, output_guardrails=[few])).values():
        for stream in (False, True):
            error = await refused(openai.APIStatusError, lambda: call(stream))
            check_denial(error, "after_request_hooks")


async def a_denial_in_a_stream_is_an_error_behind_the_text_that_passed(client):
    other = guarded(client, output_guardrails=[none_of("secret", deny=True)])
    # More than the gateway reads at once, so that some of it is sent before the rest has arrived.
    harmless = "this is sent on " * 1000
    for name, call in calls(other, "emulator-echo", harmless + "secret never sent").items():
        texts, error = [], None
        stream = await value(call(True))
        try:
            if hasattr(stream, "__aiter__"):
                async for event in stream:
                    error = error or event_error(event)
                    texts.append(text_of(name, event))
            else:
                for event in stream:
                    error = error or event_error(event)
                    texts.append(text_of(name, event))
        except openai.APIError as raised:
            error = raised.message
        text = "".join(texts)
        assert error and "guardrail checks" in error, f"{name}: {error}"
        assert text and harmless.startswith(text), f"{name}: {text[-200:]!r}"


def event_error(event):
    """The message of an error that the SDK hands on as an event: those of responses."""
    return event.message if getattr(event, "type", "") == "error" else None


async def what_fails_without_a_denial_is_a_response_with_results(client):
    other = guarded(client, input_guardrails=[none_of("hello")], output_guardrails=[none_of("fox")])
    answer = await value(
        other.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO),
    )
    assert answer.status_code == 246
    for name, call in calls(other).items():
        answer = await value(call(False))
        assert text_of(name, answer).startswith("The quick brown fox")
        for phase in ("before_request_hooks", "after_request_hooks"):
            [hook] = answer.model_extra["hook_results"][phase]
            assert (hook["id"], hook["verdict"], hook["deny"]) == ("g", False, False), hook


async def redacted_text_is_the_same_whole_and_streamed(client):
    redaction = {"regexReplace": {"rule": "fox|lazy dog", "redactText": "***"}}
    for name, call in calls(guarded(client, output_guardrails=[redaction])).items():
        whole = text_of(name, await value(call(False)))
        assert whole.startswith("The quick brown *** jumps over the ***. The quick"), whole
        events = await items(call(True))
        assert "".join(text_of(name, event) for event in events) == whole, name
        if name == "responses":
            assert events[-1].response.output_text == whole


async def results_stand_in_a_stream_where_the_client_wants_them(client):
    other = guarded(client, strict_std_compliance=False, input_guardrails=[none_of("hidden")])
    chunks = await items(calls(other)["chat"](True))
    [hook] = chunks[0].model_extra["hook_results"]["before_request_hooks"]
    assert hook["verdict"] is True
    # An event without choices is passed over by clients, as those with the usage are.
    assert "".join(text_of("chat", chunk) for chunk in chunks if chunk.choices).startswith("The quick")


CHECKS = [
    a_denied_request_is_a_status_error,
    a_denied_response_is_a_status_error,
    a_response_that_is_held_back_and_denied_is_a_status_error,
    a_denial_in_a_stream_is_an_error_behind_the_text_that_passed,
    what_fails_without_a_denial_is_a_response_with_results,
    redacted_text_is_the_same_whole_and_streamed,
    results_stand_in_a_stream_where_the_client_wants_them,
]

if __name__ == "__main__":
    told = {"base_url": BASE_URL, "api_key": KEY}
    run(CHECKS, {"sync": lambda: openai.OpenAI(**told), "async": lambda: openai.AsyncOpenAI(**told)})
