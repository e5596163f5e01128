"""The official OpenAI SDK puts streams together whose provider numbers and repeats otherwise than OpenAI: node/deviations.json.

Environment: BASE_URL (with /v1), KEY (a service key). The provider is played here, as Together.
"""

import http.server
import json
import os
import pathlib
import threading

import openai
from both import entered, items, run, value

DEVIATIONS = json.loads((pathlib.Path(__file__).parent / "node" / "deviations.json").read_text())
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class Provider(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        deltas = DEVIATIONS[int(body["model"].removeprefix("deviation-"))]["deltas"]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for choice in [*({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas), {"finish_reason": "stop"}]:
            self.event(json.dumps({"id": "r", "created": 1, "model": "m", "choices": [choice]}))
        self.event(json.dumps({"id": "r", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}))
        self.event("[DONE]")

    def event(self, data):
        self.wfile.write(f"data: {data}\n\n".encode())


def check(number, deviation):
    async def streamed(client):
        asked = {"model": f"deviation-{number}", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
        async with entered(client.chat.completions.stream(**asked)) as stream:
            await items(stream)
            final = await value(stream.get_final_completion())
        message = final.choices[0].message
        assert message.role == "assistant" and final.choices[0].finish_reason == "tool_calls", final
        calls = [(call.function.name, json.loads(call.function.arguments)["n"]) for call in message.tool_calls]
        assert calls == [("look", 1), ("look", 2)], message.tool_calls
        assert len({call.id for call in message.tool_calls}) == 2 and all(call.id for call in message.tool_calls)

    streamed.__name__ = deviation["name"]
    return streamed


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    given = {
        "base_url": os.environ["BASE_URL"],
        "api_key": "k",
        "max_retries": 0,
        "default_headers": {
            "x-gateway-api-key": os.environ["KEY"],
            "x-gateway-provider": "together-ai",
            "x-gateway-custom-host": f"http://127.0.0.1:{server.server_port}/v1",
        },
    }
    checks = [check(number, deviation) for number, deviation in enumerate(DEVIATIONS)]
    run(checks, {"sync": lambda: openai.OpenAI(**given), "async": lambda: openai.AsyncOpenAI(**given)})


if __name__ == "__main__":
    main()
