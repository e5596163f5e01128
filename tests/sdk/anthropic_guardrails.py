"""The official Anthropic SDK against guardrails: what is denied is an exception with its results, what passes is an ordinary message.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, whose text is "The quick brown fox
jumps over the lazy dog." and the same again. What guardrails find is not tested here.
"""

import json
import os

import anthropic
from both import entered, items, refused, run, value

# This SDK adds /v1 itself.
BASE_URL, KEY = os.environ["BASE_URL"].removesuffix("/v1"), os.environ["KEY"]
# One that speaks the caller's dialect, and one that is translated.
MODELS = {"@anthropic-emulator": "claude-sonnet-4-5?tokens=40", "@emulator": "gpt-4o-mini?tokens=40"}
ASK = {"max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}


def none_of(text, **more):
    return {"id": "g", "contains": {"operator": "none", "words": [text]}, **more}


def guarded(client, **more):
    """Each provider's model with a client whose requests have these guardrails."""
    for provider, model in MODELS.items():
        headers = {"x-gateway-api-key": KEY, "x-gateway-config": json.dumps({"provider": provider, **more})}
        yield model, client.with_options(default_headers=headers, max_retries=0)


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def check_denial(error, phase):
    assert error.status_code == 446, error
    assert error.body["type"] == "error" and "guardrail checks" in error.body["error"]["message"]
    [hook] = error.body["hook_results"][phase]
    assert (hook["id"], hook["verdict"], hook["deny"]) == ("g", False, True)


async def a_denied_request_is_a_status_error(client):
    for model, other in guarded(client, input_guardrails=[none_of("hello", deny=True)]):
        for stream in (False, True):
            create = lambda: other.messages.create(model=model, stream=stream, **ASK)  # noqa: B023, E731
            check_denial(await refused(anthropic.APIStatusError, create), "before_request_hooks")


async def a_denied_response_is_a_status_error(client):
    few = {"id": "g", "wordCount": {"minWords": 0, "maxWords": 3}, "deny": True}
    for guardrail in (none_of("The", deny=True), few):
        for model, other in guarded(client, output_guardrails=[guardrail]):
            for stream in (False, True):
                create = lambda: other.messages.create(model=model, stream=stream, **ASK)  # noqa: B023, E731
                check_denial(await refused(anthropic.APIStatusError, create), "after_request_hooks")


async def a_denial_in_a_stream_is_an_exception_behind_the_text_that_passed(client):
    # More than the gateway reads at once, so that some of it is sent before the rest has arrived.
    harmless = "this is sent on " * 1000
    ask = {"max_tokens": 9000, "messages": [{"role": "user", "content": harmless + "secret never sent"}]}
    for _, other in guarded(client, output_guardrails=[none_of("secret", deny=True)]):
        texts, error = [], None
        async with entered(other.messages.stream(model="emulator-echo", **ask)) as stream:
            try:
                if hasattr(stream, "__aiter__"):
                    async for event in stream:
                        texts.append(event.text if event.type == "text" else "")
                else:
                    for event in stream:
                        texts.append(event.text if event.type == "text" else "")
            except anthropic.APIStatusError as raised:
                error = raised
        assert error is not None and "guardrail checks" in error.body["error"]["message"], repr(error)
        passed = "".join(texts)
        assert passed and harmless.startswith(passed), f"{passed[-200:]!r}"


async def what_fails_without_a_denial_is_a_message_with_results(client):
    for model, other in guarded(client, input_guardrails=[none_of("hello")], output_guardrails=[none_of("fox")]):
        raw = await value(other.messages.with_raw_response.create(model=model, **ASK))
        assert raw.status_code == 246
        message = await value(raw.parse())
        assert text(message).startswith("The quick brown fox")
        for phase in ("before_request_hooks", "after_request_hooks"):
            [hook] = message.model_extra["hook_results"][phase]
            assert (hook["id"], hook["verdict"], hook["deny"]) == ("g", False, False), hook


async def redacted_text_is_the_same_whole_and_streamed(client):
    redaction = {"regexReplace": {"rule": "fox|lazy dog", "redactText": "***"}}
    for model, other in guarded(client, output_guardrails=[redaction]):
        whole = text(await value(other.messages.create(model=model, **ASK)))
        assert whole.startswith("The quick brown *** jumps over the ***. The quick"), whole
        async with entered(other.messages.stream(model=model, **ASK)) as stream:
            pieces = await items(stream.text_stream)
            final = await value(stream.get_final_message())
        assert "".join(pieces) == text(final) == whole, model


CHECKS = [
    a_denied_request_is_a_status_error,
    a_denied_response_is_a_status_error,
    a_denial_in_a_stream_is_an_exception_behind_the_text_that_passed,
    what_fails_without_a_denial_is_a_message_with_results,
    redacted_text_is_the_same_whole_and_streamed,
]

if __name__ == "__main__":
    told = {"base_url": BASE_URL, "api_key": "not-used-by-the-gateway"}
    run(CHECKS, {"sync": lambda: anthropic.Anthropic(**told), "async": lambda: anthropic.AsyncAnthropic(**told)})
