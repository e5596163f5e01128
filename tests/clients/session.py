"""One session of a coding agent at one provider, in a network that is nothing but loopback.

Started by tests/clients.rs in a network namespace of its own: `session.py AGENT PROVIDER GATEWAY PROGRAMS`. It runs the block
of docs/clients.md as it is pasted, with another model where the cell has another provider (AGENT-websocket: with the line for that),
and then the client. It judges what the session did to the files, what the provider received, and what the client printed.
"""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import agents
import provider as providers

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEY = "tp-your-key-0123456789"
# A provider's model, as the client names it.
MODELS = {
    "openai": "@openai/gpt-5.1",
    "anthropic": "@anthropic/claude-sonnet-5-5",
    "google": "@google/gemini-3.1-pro-preview",
    "bedrock": "@bedrock/anthropic.claude-sonnet-5-5-v1:0",
    "chat-only": "@chat-only/zai-org/GLM-4.6",
}
# Each cell's config has the name that clients use, `retry` for those that do not try again themselves, and heartbeats that come soon.
# Models that a client calls by names of its own (for titles, for summaries) are the cell's model too.
SETTINGS = """
listen: {{data: [127.0.0.1:8787], control: 127.0.0.1:8788}}
store: {{url: 'sqlite://{folder}/turnpike.db'}}
auth:
  keys: [{{name: agents, key: {key}, scopes: [completions.write]}}]
providers:
  openai-account: {{provider: openai, api_key: sk-0123456789, custom_host: '{url}/v1'}}
  anthropic-account: {{provider: anthropic, api_key: sk-0123456789, custom_host: '{url}/v1'}}
  google-account: {{provider: google, api_key: sk-0123456789, custom_host: '{url}'}}
  bedrock-account:
    provider: bedrock
    custom_host: '{url}'
    cloud_a_region: us-east-1
    cloud_a_access_key_id: AKIAEXAMPLE
    cloud_a_secret_access_key: secret-0123456789
  chat-only-account: {{provider: together-ai, api_key: sk-0123456789, custom_host: '{url}/v1'}}
custom_hosts: {{allow_private: true}}
configs:
  {cell}:
    provider: '@{cell}-account'
    retry: {{attempts: {retries}}}
    time_limits: {{heartbeat_ms: 200}}
  plain-names: {{provider: '@{cell}-account', override_params: {{model: '{model}'}}}}
default_config: plain-names
"""
SUMMARY = "Summary of the session: notes.txt says osprey now (mark: kestrel)."
DONE = "The notes are changed: all done (mark: bittern)."
PROMPT = "Read notes.txt, replace heron by osprey in it, and run sh check.sh."
SECONDS = 240


def loopback_up():
    """Sets the flag IFF_UP of `lo`, which a new network namespace has down; where there is more than `lo`, nothing is run."""
    interfaces = [name for _, name in socket.if_nameindex()]
    assert interfaces == ["lo"], f"not a network of its own: {interfaces}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1 | 64))


def block(client):
    """The block of docs/clients.md for this client."""
    page = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- test: client {client} -->\n```sh\n(.*?)```", page, re.S)
    assert found, f"docs/clients.md has no block for {client}"
    return found.group(1)


def start_gateway(binary, folder, **values):
    settings = folder / "turnpike.yaml"
    settings.write_text(SETTINGS.format(folder=folder, key=KEY, **values), encoding="utf-8")
    log = (folder / "gateway.log").open("w")
    process = subprocess.Popen([binary, "run", "-c", settings], stdout=log, stderr=log, cwd=folder)
    for _ in range(600):
        assert process.poll() is None, (folder / "gateway.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", 8787), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the gateway was not ready in 30 s")


def run_client(agent, script, folder):
    """Runs the pasted block and the client in a new home and a new project; its exit code, and what it printed."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir(exist_ok=True)
    (project / "notes.txt").write_text(agents.NOTES)
    (project / "check.sh").write_text("grep -c osprey notes.txt > checked.txt && echo checked: plover\n")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    environment = {"HOME": str(home), "PATH": agent.path + os.pathsep + os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8"}
    environment.update(agent.environment)
    with (folder / "client.log").open("w") as log:
        process = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=project, env=environment, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = "none, it ran too long"
    return status, (folder / "client.log").read_text(errors="replace")


def judge(agent, folder, status, printed, provider):
    """Every expectation that does not hold."""
    project = folder / "project"
    turns = provider.of_kind("turn")
    checked = project / "checked.txt"
    both = [t for t in turns if "in the same turn: dunlin\\n" in t.text or t.text.count("in the same turn: dunlin") > 1]
    expected = {
        f"the client ends well (its status: {status})": status == 0,
        "the client prints the model's last words": "bittern" in printed,
        "the model sees what is in the file": any("heron" in t.text and "The last line" in t.text for t in turns),
        "the file is changed": (project / "notes.txt").read_text() == agents.CHANGED,
        "the command runs": checked.exists() and checked.read_text().strip() == "1",
        "the model sees what the command prints": not agent.shows_output or any("plover" in t.text for t in provider.seen),
        "the model sees both results of one turn": not agent.shows_output or bool(both),
        "every step of the script is taken": provider.taken == len(provider.steps),
        "the conversation is compacted, and goes on": bool(turns) and agent.compacted(provider, printed),
        "no request goes to an unknown path": not provider.of_kind("unknown path"),
    }
    return [name for name, holds in expected.items() if not holds]


def main():
    client, cell, binary, programs = sys.argv[1:5]
    over_websocket = client.endswith("-websocket")
    client = client.removesuffix("-websocket")
    loopback_up()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"client-{client}-{cell}-"))
    agent = agents.AGENTS[client](programs, folder / "project")
    provider = providers.Provider(agent, agent.steps(DONE), agent.summary(SUMMARY))
    url = f"http://127.0.0.1:{provider.port}"
    model = MODELS[cell].split("/", 1)[1]
    gateway = start_gateway(binary, folder, url=url, cell=cell, model=model, retries=agent.retries)
    pasted = re.sub("|".join(map(re.escape, MODELS.values())), MODELS[cell], block(client))
    if over_websocket:
        pasted = pasted.replace('wire_api = "responses"\n', 'wire_api = "responses"\nsupports_websockets = true\n')
    status, printed = run_client(agent, f"{pasted}\n{agent.command(PROMPT)}", folder)
    failed = judge(agent, folder, status, printed, provider)
    others = {request.model for request in provider.seen} - {model}
    complaints = {f"a request that its provider takes: {each}" for request in provider.seen for each in request.complaints}
    failed += sorted(complaints) if agent.unjudged_at != cell else []
    failed += [f"every request is for the model of the cell, none for {others}"] if others else []
    gateway.terminate()
    if over_websocket:
        gateway.wait(30)
        log = (folder / "gateway.log").read_text()
        failed += [] if '"status":101' in log and log.count('"method":"POST"') > 5 else ["each turn comes over a websocket"]
        failed += ["nothing but turns of websockets is sent"] if re.search(r'"trace_id":"[^"]{36}","[^}]*"method":"POST"', log) else []
    if failed or os.environ.get("CLIENTS_KEEP"):
        (folder / "received.jsonl").write_text("".join(f"{r.kind}\t{r.path}\t{r.text}\n" for r in provider.seen))
    if failed:
        print(f"{client} at {cell}: " + "; ".join(f"not so: {name}" for name in failed))
        print(f"requests: {provider.kinds()}\nclient, the end:\n{printed[-4000:]}")
        print("gateway, the end:\n" + (folder / "gateway.log").read_text()[-3000:])
        print(f"kept: {folder}")
        sys.exit(1)
    print(f"{client} at {cell}: a session of {len(provider.seen)} requests")
    if not os.environ.get("CLIENTS_KEEP"):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
