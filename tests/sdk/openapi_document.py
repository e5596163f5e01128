"""The control API against its own document, with Schemathesis: no 500, no response that contradicts the document.

Environment: CONTROL (the control port), OPERATOR_KEY (a key with every scope of administration that no call can delete). Bounded
and with a fixed seed (schemathesis.toml), so that two runs send the same. With TEST_ALL, bodies and parameters are made up as well
("fuzzing"), and objects are made, read, changed and deleted in long sequences; without it, each rule of the document is tried once,
and the rules for an object at the route that makes it, not at the one that replaces it.
"""

import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

from openapi_spec_validator import OpenAPIV31SpecValidator

HERE = Path(__file__).parent
CONFIG = HERE / "schemathesis.toml"
WITHOUT_PUT = '\n[[operations]]\ninclude-method = "PUT"\nphases.coverage.enabled = false\n'
DOCUMENT = f"{os.environ['CONTROL']}/v1/openapi.json"

# Read at import.
os.environ["SCHEMATHESIS_HOOKS"] = str(HERE / "schemathesis_checks.py")


def validate():
    with urllib.request.urlopen(DOCUMENT) as response:
        OpenAPIV31SpecValidator(json.load(response)).validate()
    print("the document is valid OpenAPI 3.1", flush=True)


if __name__ == "__main__":
    validate()
    # It keeps what has failed in the working directory, and repeats it in the next run.
    os.chdir(tempfile.mkdtemp())
    config = Path("schemathesis.toml")
    config.write_text(CONFIG.read_text() + ("" if os.environ.get("TEST_ALL") else WITHOUT_PUT))
    from schemathesis.cli import schemathesis

    phases = "examples,coverage,fuzzing,stateful" if os.environ.get("TEST_ALL") else "examples,coverage,stateful"
    run = ["run", DOCUMENT, "--phases", phases, "--max-examples", "3", "--no-color", "--warnings", "off"]
    schemathesis(["--config-file", str(config), *run, *sys.argv[1:]])
