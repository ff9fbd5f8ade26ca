"""Refuses to be imported in a sub-interpreter: what the native module keeps belongs to one interpreter."""

from __future__ import annotations

from importlib import import_module


def _is_main() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # since 3.13, before
        try:
            module = import_module(name)
        except ImportError:
            continue
        return bool(module.get_current() == module.get_main())
    return True


if not _is_main():
    raise ImportError("hermes_log can be used by the main interpreter of a process only")
