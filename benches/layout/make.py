#!/usr/bin/env python3
"""Writes functions.ld beside this script: the functions that the gateway runs through, for the linker to lay side by side.

    cargo build --profile profiling && benches/layout/make.py target/profiling/turnpike

The binary has 40 MB of code. A start runs through 4 MB of it and a request through 2 MB, a few hundred bytes here and there: a processor waits
for each, and the page of each is resident. `make release` gives functions.ld to the linker. A name that is no more does no harm and one that is
missing costs little, so the list is made anew now and then, not for every change. Needs valgrind and nm.
"""

import collections
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROVIDER, DATA, CONTROL = "127.0.0.1:7810", "127.0.0.1:7811", "127.0.0.1:7812"
# How often each request is sent, and how often a function must be called by all of them to stand among the first.
REQUESTS = 200
LEAST = 40
# A name is given without its hash where it has no more functions than this: the hash changes with the compiler and the libraries.
MOST_OF_A_NAME = 1
HASH = re.compile(r"17h[0-9a-f]{16}E$")

SINGLE = {"provider": "@up"}
CONFIGS = [
    SINGLE,
    {"strategy": {"mode": "fallback"}, "targets": [SINGLE, SINGLE]},
    {**SINGLE, "input_guardrails": [{"default.regexMatch": {"rule": "[0-9]{12}", "not": True}, "deny": True}]},
    {**SINGLE, "cache": {"mode": "simple"}},
]


def send(config, streamed, number):
    """Sends one chat many times, over one connection."""
    connection = http.client.HTTPConnection(DATA)
    headers = {
        "authorization": "Bearer bench-service-key-0002",
        "content-type": "application/json",
        "x-gateway-config": json.dumps(config),
    }
    for at in range(REQUESTS):
        message = {"role": "user", "content": f"What is the capital of country {number}-{at}?"}
        body = {"model": "bench?tokens=48", "stream": streamed, "messages": [message]}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text


def read(dump):
    """The calls of a dump of callgrind: (caller, callee) to their number, and the instructions of each function itself."""
    names, calls, own = {}, collections.Counter(), collections.Counter()

    def name(text):
        number, _, rest = text.partition(" ")
        if rest:
            # Callgrind numbers recursive calls, LLVM what it has moved between its units.
            names[number] = re.sub(r"\.llvm\.\d+$", "", re.sub(r"'\d+$", "", rest))
        return names[number]

    caller = callee = None
    is_call = False
    for line in dump.read_text(errors="replace").splitlines():
        if line.startswith("fn="):
            caller = name(line[3:])
        elif line.startswith("cfn="):
            callee = name(line[4:])
        elif line.startswith("calls="):
            calls[caller, callee] += int(line[6:].split()[0])
            is_call = True
        elif re.match(r"[+*\-\d]", line):
            if not is_call and len(line.split()) > 1:
                own[caller] += int(line.split()[1])
            is_call = False
    return calls, own


def ordered(start, load):
    """All functions that ran: first those of requests, callers beside their callees, then what else the load ran, then the start."""
    calls, own = load
    called, callees = collections.Counter(), collections.defaultdict(list)
    for (caller, callee), count in sorted(calls.items(), key=lambda call: -call[1]):
        called[callee] += count
        callees[caller].append(callee)
    order = {}
    for function, _ in own.most_common():
        stack = [function]
        while stack:
            next_one = stack.pop()
            if called[next_one] >= LEAST and next_one not in order:
                order[next_one] = None
                stack.extend(reversed(callees[next_one]))
    for function in [*own, *start[1]]:
        order.setdefault(function)
    return order


def main(binary):
    with tempfile.TemporaryDirectory() as work:
        words = {"THREADS": "1", "DATA": DATA, "CONTROL": CONTROL, "UPSTREAM": PROVIDER, "DIRECTORY": work}
        settings = (HERE.parent / "load/settings.yaml").read_text()
        for word, value in words.items():
            settings = settings.replace(word, value)
        pathlib.Path(work, "turnpike.yaml").write_text(settings)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        emulator = subprocess.Popen([binary, "emulator", "--listen", PROVIDER], **quiet)
        valgrind = ["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={work}/calls"]
        environment = {**os.environ, "STATE_DIRECTORY": work}
        gateway = subprocess.Popen([*valgrind, binary, "run", "-c", f"{work}/turnpike.yaml"], env=environment, **quiet)

        def dump(number):
            # The threads of the log store have written by then.
            time.sleep(5)
            subprocess.run(["callgrind_control", "--dump", str(gateway.pid)], check=True, **quiet)
            time.sleep(5)
            return read(pathlib.Path(f"{work}/calls.{number}"))

        try:
            time.sleep(15)
            start = dump(1)
            for number, config in enumerate(CONFIGS):
                send(config, False, number)
                send(config, True, number)
            order = ordered(start, dump(2))
        finally:
            gateway.kill()
            emulator.kill()
            gateway.wait()

    symbols = subprocess.run(["nm", binary], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = {re.sub(r"\.llvm\.\d+$", "", line.split()[-1]) for line in symbols}
    shared = collections.Counter(HASH.sub("17h*", symbol) for symbol in symbols)
    patterns = {}
    # Those of the C library are not in the binary.
    for function in filter(symbols.__contains__, order):
        pattern = HASH.sub("17h*", function)
        patterns.setdefault(pattern if shared[pattern] <= MOST_OF_A_NAME else f"{function}*")
    lines = "".join(f"    *(.text.{pattern})\n" for pattern in patterns)
    text = f"/* Made by benches/layout/make.py. */\nSECTIONS {{\n  .text.first : {{\n{lines}  }}\n}}\nINSERT BEFORE .text;\n"
    (HERE / "functions.ld").write_text(text)
    print(f"functions.ld: {len(patterns)} names")


main(sys.argv[1])
