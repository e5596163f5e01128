#!/usr/bin/env python3
"""Writes what the binary is made of: an SBOM (CycloneDX 1.6, JSON) and the licence texts of everything that is linked in.

    dist/inventory.py TARGET SBOM LICENCES      (TARGET: x86_64-unknown-linux-gnu, ...)

From `cargo tree` (which crates end up in the binary: no build tools, no macros, no crates for tests), `cargo metadata`, Cargo.lock
and the crates' own files. It fails when a crate has no licence text and declares none that is known here. Not a generator of the
Debian package's copyright file, which refers to this one. Standard library of Python 3.8 only.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
LICENCE_NAMES = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense|patents)([-._].*)?$", re.IGNORECASE)
NOT_TEXTS = {".rs", ".toml", ".json", ".py", ".c", ".h", ".cc", ".go", ".pl", ".sh"}
NOT_LINKED = {"tests", "test", "examples", "benches", "fuzz", "docs", "doc", ".git", ".github", "target"}

MIT = """Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use,
copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software
is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE
FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def printed(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def linked(target):
    """Name and version of each crate in the binary."""
    tree = printed(
        *("cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--target", target),
        *("--prefix", "none", "--format", "{p}"),
    )
    return {tuple(line.split()[:2]) for line in tree.splitlines() if line}


def checksums():
    """SHA-256 of each package of Cargo.lock, by name and version."""
    text = (ROOT / "Cargo.lock").read_text()
    entry = re.compile(r'^name = "(.+)"\nversion = "(.+)"\n(?:source = ".+"\n)?(?:checksum = "(.+)"\n)?', re.MULTILINE)
    return {(name, version): digest for name, version, digest in entry.findall(text)}


def expression(package):
    """Its licence in SPDX; crates of old write a slash for OR."""
    declared = package["license"]
    if not declared and package["license_file"]:
        return "LicenseRef-" + package["name"]
    if not declared:
        sys.exit(f"{package['name']}: no licence declared")
    return re.sub(r"\s*/\s*", " OR ", declared)


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def component(package, digests):
    made = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": expression(package)}],
        "purl": purl(package),
    }
    digest = digests.get((package["name"], package["version"]))
    if digest:
        made["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def sbom(root, packages, edges, digests):
    """The document; its serial number and time follow from its content, so that equal builds are equal."""
    components = [component(package, digests) for package in packages]
    main = component(root, {})
    main["type"] = "application"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or printed("git", "log", "-1", "--format=%ct"))
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    content = json.dumps([main, components], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": main},
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(to)} for ref, to in sorted(edges.items())],
    }


def edges_between(metadata, packages, root):
    """Which package uses which, without build tools and tests. The crates of the workspace are the application itself."""
    refs = {package["id"]: purl(package) for package in packages}
    refs.update({id: purl(root) for id in metadata["workspace_members"] if id in refs})
    edges = {}
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in refs:
            normal = [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
            used = {refs[id] for id in normal if id in refs}
            edges.setdefault(refs[node["id"]], set()).update(used - {refs[node["id"]]})
    return edges


def texts(package):
    """The licence texts in the crate, those of bundled C libraries too, by path."""
    folder = pathlib.Path(package["manifest_path"]).parent
    found = {}
    for path, folders, files in os.walk(str(folder)):
        folders[:] = sorted(name for name in folders if name.lower() not in NOT_LINKED)
        for name in sorted(files):
            file = pathlib.Path(path) / name
            if not LICENCE_NAMES.match(name) or file.suffix.lower() in NOT_TEXTS:
                continue
            text = file.read_text(errors="replace").strip() + "\n"
            # zstd may be had under the GPL instead; the crate takes the other licence.
            if text.startswith("GNU GENERAL PUBLIC LICENSE") and "GPL" not in expression(package):
                continue
            found[str(file.relative_to(folder))] = text
    return found


def texts_of(package, packages):
    """Its texts; those of a crate of the same repository, or that of the licence it declares, where it contains none."""
    own = texts(package)
    if own:
        return own
    for other in packages:
        if package["repository"] and other["repository"] == package["repository"] and texts(other):
            return {f"text of {other['name']}: {path}": text for path, text in texts(other).items()}
    declared = expression(package)
    if "MIT" in declared:
        holders = ", ".join(package["authors"]) or f"the authors of {package['name']}"
        return {"no text in the crate": f"MIT License\n\nCopyright (c) {holders}\n\n{MIT}"}
    if "Apache-2.0" in declared:
        return {"no text in the crate": (ROOT / "LICENSE").read_text()}
    sys.exit(f"{package['name']} {package['version']}: {declared}, and no text of it in the crate")


def rust_library():
    """The standard library is linked in as well. Its notices are in a file of the toolchain, which the package contains."""
    release = re.search(r"release: (\S+)", printed("rustc", "-vV")).group(1)
    return f"Rust's standard library {release}: MIT OR Apache-2.0 (https://github.com/rust-lang/rust)"


def licences(packages):
    """Every text once, under the names of the crates that have it."""
    owners = {}
    index = [rust_library()]
    for package in packages:
        name = f"{package['name']} {package['version']}"
        index.append(f"{name}: {expression(package)}" + (f" ({package['repository']})" if package["repository"] else ""))
        for path, text in texts_of(package, packages).items():
            owners.setdefault(text, []).append(f"{name} ({path})")
    rule = "=" * 100
    parts = ["Turnpike's binary contains the following software. The texts of the licences follow.\n", "\n".join(index) + "\n"]
    parts += [f"{rule}\n" + "\n".join(names) + f"\n{rule}\n\n{text}" for text, names in owners.items()]
    return "\n".join(parts)


def main(target, sbom_file, licences_file):
    metadata = json.loads(printed("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    names = {(name, version.lstrip("v")) for name, version in linked(target)}
    packages = [package for package in metadata["packages"] if (package["name"], package["version"]) in names]
    packages.sort(key=lambda package: (package["name"], package["version"]))
    missing = names - {(package["name"], package["version"]) for package in packages}
    if missing:
        sys.exit(f"cargo metadata does not know {sorted(missing)}")
    root = next(package for package in packages if package["id"] == metadata["resolve"]["root"])
    own = set(metadata["workspace_members"])
    others = [package for package in packages if package["id"] not in own]
    document = sbom(root, others, edges_between(metadata, packages, root), checksums())
    pathlib.Path(sbom_file).write_text(json.dumps(document, indent=1) + "\n")
    pathlib.Path(licences_file).write_text(licences(others))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
