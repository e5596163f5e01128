"""Judges an SBOM by the published schema of CycloneDX 1.6: `sbom.py FILE`. Prints what is wrong and exits 1."""

import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(sys.argv[1]).read_text())
sys.exit(str(error) if error else 0)
