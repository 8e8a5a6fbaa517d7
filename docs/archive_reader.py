#!/usr/bin/env python3
"""Reads a Kilolock state archive (*.klstate) and writes the document of every version.

    archive_reader.py ARCHIVE.klstate DIRECTORY

A reference reader for archive-format.md: Python 3.8 or newer and its standard library, and the
`zstd` program (or the module `zstandard`). It checks every document against its SHA-256 and the
entries against the manifest. It does not check the signature, and it trusts the archive's sizes:
for archives of strangers use `kl archive`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

FORMAT = "kilolock-state-archive/v1"

# What can stand in raw JSON text besides white space and punctuation between values.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+')


def value_end(text, at):
    """The position after the JSON value that begins at `at`; never recursive, so as deep as you like."""
    depth = 0
    for token in TOKEN.finditer(text, at):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token.group(), 0)
        if depth == 0:
            return token.end()
    raise ValueError("the text ends within a value")


def values(text, at):
    """Spans of the elements of the array, or of names and values of the object, that begins at `at`."""
    end = value_end(text, at) - 1
    at += 1
    while (token := TOKEN.search(text, at)) and token.start() < end:
        at = value_end(text, token.start())
        yield token.start(), at


def members(text, at):
    """Name token, and start and end of the value, of each member of the object that begins at `at`."""
    spans = values(text, at)
    for name in spans:
        value = next(spans)
        yield text[name[0] : name[1]], value[0], value[1]


def decode(token):
    """A JSON string; surrogates without a partner become U+FFFD, as they do for Terraform."""
    return json.loads(token).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def split(text):
    """A document that was written by rendering, as header, outputs and rows."""
    header, outputs, rows = [], {}, []
    for token, start, end in members(text, text.index("{")):
        name, value = decode(token), text[start:end]
        if name == "outputs" and value not in ("null", "{}"):
            for output, a, b in members(text, start):
                outputs[decode(output)] = (output, text[a:b])
            value = "{}"
        elif name == "resources" and value not in ("null", "[]"):
            for a, b in values(text, start):
                rows.extend(split_block(text[a:b]))
            value = "[]"
        header.append((token, value))
    return header, outputs, rows


def split_block(text):
    """The rows of one element of `resources`: block text and body, no body where there are no instances."""
    end = start = None
    for token, a, b in members(text, 0):
        if token == '"instances"':
            bodies = [text[x:y] for x, y in values(text, a)]
            block = text[start:end] if end else ""
            return [(block, body) for body in bodies] or [(block, None)]
        start, end = text.index(token) if start is None else start, b
    raise ValueError("a resource without instances")


def apply_delta(lines, header, outputs, rows):
    """The next version's header, outputs and rows."""
    before, now, position, block = dict(header), [], 0, None
    for line in lines:
        op = line["op"]
        if op == "header":
            header = [(name, before[name] if text is None else text) for name, text in line["members"]]
        elif op == "output_set":
            outputs[line["name"]] = (line["token"], line["body"])
        elif op == "output_gone":
            del outputs[line["name"]]
        else:
            now.extend(rows[position : line["at"]])
            position = line["at"] if op == "insert" else line["at"] + 1
            if op != "remove":
                block = line.get("block", block)
                now.append((block, line.get("body")))
    return header, outputs, now + rows[position:]


def render(header, outputs, rows):
    """The document: Terraform's layout around texts that are taken as they are."""
    names = [decode(name) for name, _ in header]
    header = header + [('"' + slot + '"', None) for slot in ("outputs", "resources") if slot not in names]
    texts = []
    for token, text in header:
        name = decode(token)
        if name == "outputs" and outputs:
            text = "{\n    " + ",\n    ".join(": ".join(outputs[o]) for o in sorted(outputs)) + "\n  }"
        elif name == "resources" and rows:
            text = render_blocks(rows)
        if text is not None:
            texts.append("\n  " + token + ": " + text)
    return "{" + ",".join(texts) + ("\n}\n" if texts else "}\n")


def render_blocks(rows):
    """Neighbours with the same block text share a block."""
    blocks, last = [], None
    for block, body in rows:
        if body is not None and block == last:
            blocks[-1][1].append(body)
        else:
            blocks.append((block, [] if body is None else [body]))
        last = None if body is None else block
    texts = []
    for block, bodies in blocks:
        lead = block + ",\n      " if block else ""
        inner = "[\n        " + ",\n        ".join(bodies) + "\n      ]" if bodies else "[]"
        texts.append("\n    {\n      " + lead + '"instances": ' + inner + "\n    }")
    return "[" + ",".join(texts) + "\n  ]"


def documents(entries):
    """Metadata and document of each version, from the entries in their order."""
    seen, last, state = [], None, None
    for name, content in entries:
        if name == "archive.json":
            if json.loads(content)["format"] != FORMAT:
                sys.exit("this reads " + FORMAT)
        elif name == "manifest.json":
            listed = [(e["name"], e["bytes"], e["sha256"]) for e in json.loads(content)["entries"]]
            if listed != seen:
                sys.exit("the entries are not those of the manifest")
        elif name.endswith((".tfstate.json", ".delta.jsonl")):
            if name.endswith(".tfstate.json"):
                document = content
                state = None if last.get("verbatim") else split(content.decode())
            else:
                lines = [json.loads(line) for line in content.decode().split("\n")[:-1]]
                state = apply_delta(lines, *state)
                document = render(*state).encode()
            if hashlib.sha256(document).hexdigest() != last["sha256"]:
                sys.exit("version %d does not have its SHA-256" % last["seq"])
            yield last, document
        elif name.startswith("versions/"):
            last = json.loads(content)
        seen.append((name, len(content), hashlib.sha256(content).hexdigest()))


def unpack(path):
    """Name and content of each entry."""
    if shutil.which("zstd"):
        child = subprocess.Popen(["zstd", "-dc", "--long=27", path], stdout=subprocess.PIPE)
        stream = child.stdout
    else:
        try:
            import zstandard
        except ImportError:
            sys.exit("install zstd (for example `apt-get install -y zstd`) or the Python module zstandard")
        child = None
        stream = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(open(path, "rb"))
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for entry in tar:
            yield entry.name, tar.extractfile(entry).read()
    stream.read()
    if child and child.wait() != 0:
        sys.exit("the archive is damaged")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    os.makedirs(sys.argv[2], exist_ok=True)
    for meta, document in documents(unpack(sys.argv[1])):
        path = os.path.join(sys.argv[2], "%d.tfstate.json" % int(meta["seq"]))
        with open(path, "wb") as out:
            out.write(document)
        print(path)


if __name__ == "__main__":
    main()
