"""Whether a `tools.skill_usage` is one that can be hooked: by what is in it, not by its version."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hermes_log.hermes.hooks import plain_function

# Without these there is nothing to hook.
STORAGE = {"load_usage": 0, "save_usage": 1, "_usage_file_lock": 0}
# A body that uses only these changes one record, the one that its first argument names.
_OF_ONE_RECORD = {
    "Exception", "_empty_record", "_usage_file_lock", "debug", "dict", "get", "isinstance", "load_usage", "logger", "save_usage",
}  # fmt: skip
_GATES = {"is_agent_created", "is_curation_eligible"}
# What tells the home: the environment, and an override that is asked for by this name.
_HOME_NAMES = {
    "Exception", "OSError", "Path", "UnicodeDecodeError", "_get_platform_default_hermes_home", "_hermes_home_from_env",
    "_profile_fallback_warned", "_warn_profile_fallback_once", "environ", "exists", "flush", "get", "get_hermes_home_override",
    "home", "os", "read_text", "stderr", "strip", "sys", "write",
}  # fmt: skip


def obstacle(module: ModuleType) -> str | None:
    """Why a module cannot be hooked; None if it can."""
    for name, arguments in STORAGE.items():
        function = plain_function(getattr(module, name, None))
        if function is None:
            return f"this version's tools.skill_usage has no function {name} that can be hooked"
        code = function.__code__
        if code.co_argcount != arguments or code.co_kwonlyargcount or bool(code.co_flags & 0x20) != (name == "_usage_file_lock"):
            return f"{name} of this version's tools.skill_usage has another signature"
    if "_usage_file" not in plain_function(module.load_usage).__code__.co_names:  # type: ignore[union-attr]
        return "load_usage of this version's tools.skill_usage does not read _usage_file()"
    if not callable(getattr(module, "_usage_file", None)):
        return "this version's tools.skill_usage has no _usage_file"
    return None


def is_of_one_record(function: Any) -> bool:
    """Whether a function changes the record that its first argument names, and looks at no other."""
    plain = plain_function(function)
    if plain is None or plain.__code__.co_varnames[:1] != ("skill_name",):
        return False
    return set(plain.__code__.co_names) <= _OF_ONE_RECORD | _GATES


def is_ungated(mutate: Any) -> bool:
    """Whether `_mutate` without options changes any skill's record, asking nobody."""
    plain = plain_function(mutate)
    if plain is None or not is_of_one_record(mutate):
        return False
    asks = set(plain.__code__.co_names) & _GATES
    return not asks or plain.__kwdefaults__ == {"require_curation_eligible": False} and asks == {"is_curation_eligible"}


def is_home_known(get_home: Any) -> bool:
    """Whether the home depends on nothing but the environment and the override."""
    plain = plain_function(get_home)
    return plain is not None and set(plain.__code__.co_names) <= _HOME_NAMES
