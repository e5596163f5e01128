"""A provider that plays the model of one session: a server for the APIs of all providers, on loopback.

Requests that offer tools are turns of the agent, and get the next step of the script. What asks for a summary gets one, and
everything else a client sends aside (titles, probes) a short text. It keeps what it received.
"""
import http.server
import json
import re
import socket
import threading
import time
import urllib.parse

import dialects
import strict

# The path of a request, how it responds, and what says that it is streamed.
OPERATIONS = (
    (r"/responses$", dialects.RESPONSES),
    (r"/chat/completions$", dialects.CHAT),
    (r"/messages$", dialects.ANTHROPIC),
    (r"/models/(?P<model>[^/]+):generateContent$", dialects.GEMINI),
    (r"/models/(?P<model>[^/]+):streamGenerateContent$", dialects.GEMINI),
    (r"/model/(?P<model>[^/]+)/converse$", dialects.BEDROCK),
    (r"/model/(?P<model>[^/]+)/converse-stream$", dialects.BEDROCK),
)
STREAMS = re.compile(r"(:streamGenerateContent|/converse-stream)$")


class Request:
    def __init__(self, path, body, model, kind):
        self.path, self.body, self.model, self.kind = path, body, model, kind
        self.text = json.dumps(body, ensure_ascii=False)
        self.complaints = strict.complaints(path, body)


class Step:
    """What the model does in a turn. `act` is a function of the names of tools to a call or a list of them; `text` may be a function of the
    request's text."""

    def __init__(self, text="", act=None, status=200, cut=False, pause=0, tokens=(1200, 40)):
        self.text, self.act, self.status, self.tokens = text, act, status, tokens
        # Where its stream breaks off, and for how many seconds nothing comes between its events.
        self.cut, self.pause = cut, pause


def tools_of(body):
    """The names of the tools a request offers, in any provider's words: the value says whether it takes plain text."""
    found = {}
    for tool in body.get("tools") or []:
        if "functionDeclarations" in tool:
            found.update({each["name"]: False for each in tool["functionDeclarations"]})
        elif tool.get("type") == "custom" and "input_schema" not in tool:
            found[tool["name"]] = True
        elif "name" in tool or "function" in tool:
            found[tool.get("name") or tool["function"]["name"]] = False
    for tool in (body.get("toolConfig") or {}).get("tools", []):
        if "toolSpec" in tool:
            found[tool["toolSpec"]["name"]] = False
    return found


def thinks(path, body):
    """Whether a request asks the model to think, and to show it in a form that must come back; chat completions have none."""
    if path.endswith("/chat/completions"):
        return False
    fields = body.get("additionalModelRequestFields") or {}
    thinking = body.get("thinking") or fields.get("thinking") or fields.get("reasoning_config") or {}
    google = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    encrypted = "reasoning.encrypted_content" in (body.get("include") or [])
    return thinking.get("type") in ("enabled", "adaptive") or bool(google.get("includeThoughts")) or encrypted


class Provider:
    def __init__(self, agent, steps, summary):
        self.agent, self.steps, self.summary = agent, list(steps), summary
        self.mark = re.compile(agent.summary_mark)
        self.taken, self.seen, self.lock = 0, [], threading.Lock()
        # Whether the model has thought before the calls of its last turn: then its signature must come back with them.
        self.has_thought = False
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                send(self, 200, "application/json", b'{"object":"list","data":[],"models":[]}')

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
                provider.respond(self, self.path.split("?")[0], body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kinds(self):
        return [request.kind for request in self.seen]

    def of_kind(self, kind):
        return [request for request in self.seen if request.kind == kind]

    def respond(self, handler, path, body):
        if re.search(r"(count_tokens|:countTokens|count-tokens|input_tokens)$", path):
            counted = {"input_tokens": 1200, "inputTokens": 1200, "totalTokens": 1200}
            return send(handler, 200, "application/json", json.dumps(counted).encode())
        found = [(re.search(pattern, path), dialect) for pattern, dialect in OPERATIONS]
        found = [(match, dialect) for match, dialect in found if match]
        if not found:
            self.seen.append(Request(path, body, None, "unknown path"))
            return send(handler, 404, "application/json", b'{"error":{"message":"no such path"}}')
        match, dialect = found[0]
        model = body.get("model") or urllib.parse.unquote(match.groupdict()["model"])
        streamed = bool(body.get("stream")) or bool(STREAMS.search(path))
        step, reply = self.next(path, body, model)
        if step.status != 200:
            error = json.dumps(dialect.refusal(step.status)).encode()
            return send(handler, step.status, "application/json", error, [("retry-after", "1")] if step.status == 429 else [])
        if not streamed:
            return send(handler, 200, "application/json", dialect.whole(reply, model))
        events = list(dialect.stream(reply, model))
        if step.cut:
            events = events[:max(2, len(events) * 2 // 3)]
        stream(handler, dialect.kind, events, step)

    def next(self, path, body, model):
        """The step of this request, and what the model says in it."""
        with self.lock:
            tools = tools_of(body)
            request = Request(path, body, model, "turn" if self.agent.is_turn(tools) else "aside")
            if self.mark.search(request.text):
                request.kind = "summary"
            self.seen.append(request)
            if request.kind == "summary":
                self.has_thought = False
                return Step(), dialects.Reply(self.summary)
            if request.kind == "aside":
                return Step(), dialects.Reply("Notes")
            if self.taken >= len(self.steps):
                return Step(), dialects.Reply("Nothing is left to do.")
            step = self.steps[self.taken]
            self.taken += 1
            acts = step.act(tools) if step.act else []
            acts = acts if isinstance(acts, list) else [acts]
            calls = [dialects.Call(*act, f"call_{self.taken:04}_{number}") for number, act in enumerate(acts)]
            if self.has_thought and dialects.SIGNATURE not in request.text:
                request.complaints.append("the thinking before the calls has come back")
            self.has_thought = thinks(path, body) and (self.has_thought or bool(calls) and not step.cut)
            text = step.text(request.text) if callable(step.text) else step.text
            return step, dialects.Reply(text, calls, step.tokens, thinks(path, body))


def send(handler, status, kind, body, headers=()):
    handler.send_response(status)
    for name, value in [("content-type", kind), ("content-length", str(len(body))), *headers]:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def stream(handler, kind, events, step):
    handler.send_response(200)
    handler.send_header("content-type", kind)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    try:
        for number, each in enumerate(events):
            time.sleep(step.pause if number in (1, len(events) // 2) else 0)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(each), each))
            handler.wfile.flush()
        if step.cut:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            handler.wfile.write(b"0\r\n\r\n")
    except OSError:
        pass  # the gateway has closed: what follows shows why
