#!/usr/bin/env python3
"""Writes python/hermes_log/errors.py: one exception for each variant of the enum in src/error.rs.

python3 tools/python/generate_errors.py; with `--check` it only says whether the file is what it would write.
"""

import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src" / "error.rs"
TARGET = HERE / "python" / "hermes_log" / "errors.py"

# What is a kind of something that Python has.
BUILTIN = {
    "Io": "OSError",
    "Invalid": "ValueError",
    "NotFound": "LookupError",
    "LockTimeout": "TimeoutError",
    "FlushTimeout": "TimeoutError",
    "NotReached": "TimeoutError",
    "RefreshTimeout": "TimeoutError",
}

HEAD = '''"""Everything that can go wrong: one class for each variant of the Rust enum.

Written by tools/python/generate_errors.py. What a variant knows is in attributes of the exception.
"""

from __future__ import annotations

TYPE_CHECKING = False  # without importing typing
if TYPE_CHECKING:
    from typing import Any


class Error(Exception):
    """The base of all; what it says is a sentence for people: what happened, where, and what to do."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        for name, value in fields.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return self.message
'''


def variants(source):
    """Name and documentation of each variant."""
    body = re.search(r"pub enum Error \{\n(.*?)\n\}", source, re.DOTALL).group(1)
    docs = []
    for line in body.splitlines():
        if match := re.fullmatch(r"    /// ?(.*)", line):
            docs.append(match.group(1))
        elif match := re.fullmatch(r"    ([A-Z]\w*)(?: \{|\(.*|,).*", line):
            # Links of rustdoc say nothing here.
            text = re.sub(r"\[`(\w+)`\](?:\([^)]*\))?", r"`\1`", " ".join(docs))
            yield match.group(1), text
            docs = []


def written():
    parts = [HEAD]
    found = list(variants(SOURCE.read_text(encoding="utf-8")))
    for name, text in found:
        bases = "Error" + (f", {BUILTIN[name]}" if name in BUILTIN else "")
        lines = textwrap.wrap(text, 112) or [name]
        docs = lines[0] if len(lines) == 1 else "\n    ".join(lines) + "\n    "
        parts.append(f'class {name}({bases}):\n    """{docs}"""\n')
    names = "".join(f'    "{name}",\n' for name in sorted(["Error", *(name for name, _ in found)]))
    return "\n\n".join(parts) + f"\n\n__all__ = [\n{names}]\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") != written():
            sys.exit(f"{TARGET} does not have the variants of {SOURCE}: run tools/python/generate_errors.py")
    else:
        TARGET.write_text(written(), encoding="utf-8")
