"""The storage of `tools.skill_usage`, in the log: what the hooked functions do instead."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes_log import Profile, _native
from hermes_log.errors import LockTimeout
from hermes_log.hermes import structure
from hermes_log.hermes.hooks import BACK, NEW_CODE, Hook, plain_function

logger = logging.getLogger("hermes_log")

_KINDS = {"acp", "batch", "cron", "curator", "dashboard", "gateway", "rl", "serve"}


class Records(dict[str, Any]):
    """All records, as `load_usage` gives them, with what is needed to tell later what was changed in them."""

    __slots__ = ("base",)
    base: _native.Base

    def copy(self) -> Records:
        return self._with_base(dict(self))

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Records:
        return self._with_base(deepcopy(dict(self), memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)  # in another process there is nothing to compare it with

    def _with_base(self, records: dict[str, Any]) -> Records:
        copied = Records(records)
        copied.base = self.base
        return copied


class Place(threading.local):
    """Where a thread is."""

    only: str | None = None
    """It changes one record, this one."""
    in_lock = False
    """It is between entering and leaving `_usage_file_lock`."""
    locked = False
    """It holds the lock of `.usage.json`."""
    wants_lock = False
    """It has to hold it, this time."""
    again = False
    """Nothing was recorded: it has to be done once more, with the lock."""
    beyond: _native.Beyond | None = None
    """It has to be written when the lock is released."""


class Storage:
    """Hooks of one `tools.skill_usage` module."""

    def __init__(self, module: ModuleType) -> None:
        self._globals = module.__dict__
        self._place = Place()
        self._homes: dict[str, _native.Usage | None] = {}
        self._known: dict[tuple[Any, ...], _native.Usage | None] = {}
        self._told: set[str] = set()
        self._usage_file = module.__dict__["_usage_file"]
        self._skills_dir = module.__dict__.get("_skills_dir")
        self._get_home = module.__dict__.get("get_hermes_home")
        self._is_home_known = structure.is_home_known(self._get_home)
        constants = sys.modules.get("hermes_constants")
        # What `os.environ` keeps beneath: the same, at a tenth of the time.
        beneath = getattr(os.environ, "_data", None)
        is_bytes = isinstance(beneath, dict) and all(isinstance(name, bytes) for name in beneath)
        self._environment: Any = beneath if is_bytes else os.environ
        self._home_names: Any = (b"HERMES_HOME", b"HOME") if is_bytes else ("HERMES_HOME", "HOME")
        self._override = getattr(constants, "get_hermes_home_override", lambda: None)
        self._is_ungated = structure.is_ungated(module.__dict__.get("_mutate"))

        names = [*structure.STORAGE]
        for name in ("_mutate", "forget", "seed_record_if_missing"):
            if structure.is_of_one_record(module.__dict__.get(name)):
                names.append(name)
        self._hooks = {}
        module.__dict__[BACK] = self
        for name in names:
            function = plain_function(module.__dict__[name])
            assert function is not None  # the structure was looked at
            self._hooks[name] = Hook(function, NEW_CODE[name])
        self._stock = {name: hook.original for name, hook in self._hooks.items()}
        self._names = [(name, module.__dict__[name]) for name in structure.STORAGE]
        self._load, self._save = module.__dict__["load_usage"], module.__dict__["save_usage"]

    def is_in(self, module: ModuleType | None) -> bool:
        """Whether a module's functions are the hooked ones; they are others once it was executed again."""
        return all(getattr(module, name, None) is function for name, function in self._names)

    def remove(self) -> None:
        """Takes the hooks out."""
        for hook in self._hooks.values():
            hook.remove()

    # Which log.

    def usage(self) -> _native.Usage | None:
        """The usage of the home that Hermes means now; None: its log cannot be used, and Hermes's own storage is."""
        key: tuple[Any, ...] | None = None
        scope = self._globals
        if (
            self._is_home_known
            and scope.get("get_hermes_home") is self._get_home
            and scope.get("_skills_dir") is self._skills_dir
            and scope.get("_usage_file") is self._usage_file
        ):
            home = self._environment.get(self._home_names[0])
            key = (self._override(), home, None if home else self._environment.get(self._home_names[1]))
            try:
                return self._known[key]
            except KeyError:
                pass
        file = Path(scope["_usage_file"]())
        usage = self._of(file)
        if key is not None and file.is_absolute() and (usage is not None or str(file) in self._homes):
            self._known[key] = usage
        return usage

    def _of(self, file: Path) -> _native.Usage | None:
        name = str(file)
        if name in self._homes:
            return self._homes[name]
        if (file.name, file.parent.name) != (".usage.json", "skills"):
            self._tell(name, f"{file} is not where hermes-log knows it to be")
            return self._homes.setdefault(name, None)
        home = file.parent.parent
        if not home.is_dir():
            return None  # Hermes makes it when it writes, and then this is asked again
        try:
            usage = Profile(home)._usage(next((word for word in sys.argv[1:2] if word in _KINDS), "cli"))
        except Exception as error:
            self._tell(name, f"the log of {home} cannot be used: {error}; usage is recorded in .usage.json alone")
            return self._homes.setdefault(name, None)
        return self._homes.setdefault(name, usage)

    def _give_up(self, usage: _native.Usage) -> None:
        """The log cannot be written: from now on this process does as Hermes did before."""
        for name, known in self._homes.items():
            if known is usage:
                self._homes[name] = None
                self._tell(name, f"the log cannot be written: {usage.refused()}; usage is recorded in {name} alone")
        self._known.clear()

    def _tell(self, about: str, text: str) -> None:
        if about not in self._told:
            self._told.add(about)
            logger.warning("hermes-log: %s", text)

    # What the hooked functions do.

    def count(self, skill_name: str, mutator: Any) -> bool:
        """The short way for a mutator that only counts. False: nothing was done."""
        scope = self._globals
        if not self._is_ungated or scope.get("load_usage") is not self._load or scope.get("save_usage") is not self._save:
            return False
        try:
            usage = self.usage()
            if usage is None:
                return False
            if usage.count(skill_name, mutator):
                return True
            if usage.refused() is not None:
                self._give_up(usage)
            return False
        except Exception as error:
            self._tell("count", f"a record could not be read: {error}")
            return False

    def mutate(self, skill_name: str, *args: Any, **options: Any) -> Any:
        return self._one("_mutate", skill_name, *args, **options)

    def forget(self, skill_name: str, *args: Any, **options: Any) -> Any:
        return self._one("forget", skill_name, *args, **options)

    def seed(self, skill_name: str, *args: Any, **options: Any) -> Any:
        return self._one("seed_record_if_missing", skill_name, *args, **options)

    def _one(self, function: str, skill_name: str, *args: Any, **options: Any) -> Any:
        """Hermes's own code, on a mapping of the one record that it changes."""
        place, stock = self._place, self._stock[function]
        if type(skill_name) is not str or place.only is not None or place.in_lock or self.usage() is None:
            return stock(skill_name, *args, **options)
        place.only, place.again = skill_name, False
        try:
            result = stock(skill_name, *args, **options)
            if place.again:
                place.wants_lock = True
                result = stock(skill_name, *args, **options)
            return result
        finally:
            place.only, place.again, place.wants_lock = None, False, False

    def lock(self) -> Iterator[None]:
        """Appending takes no lock. Only who may make a new value of the one before has to be alone: a change of several
        records, or of a field that nobody here knows. It waits at most 10 seconds, and then records nothing.
        """
        place, usage = self._place, self.usage()
        if usage is None:
            yield from self._stock["_usage_file_lock"]()
            return
        place.in_lock = True
        try:
            if place.only is not None and not place.wants_lock:
                yield
            else:
                usage.take_in(place.only)
                with usage.lock():
                    place.locked = True
                    yield
                place.locked = False
                if place.beyond is not None:
                    usage.write(place.beyond)
        except LockTimeout as error:
            self._tell("lock", f"a change was not recorded: {error}")
            raise
        finally:
            place.in_lock = place.locked = False
            place.beyond = None

    def load_usage(self) -> dict[str, Any]:
        place, usage = self._place, self.usage()
        if usage is not None:
            try:
                only = place.only if place.in_lock else None
                records, base = usage.load(only)
            except Exception as error:
                self._tell("load", f"records cannot be read: {error}")
                if not (place.in_lock and place.only):
                    return self._stock["load_usage"]()  # type: ignore[no-any-return]
                # What is done to an empty record says what was done, and that is what is recorded.
                records, base = {}, _native.Base()
            loaded = Records(records)
            loaded.base = base
            return loaded
        return self._stock["load_usage"]()  # type: ignore[no-any-return]

    def save_usage(self, data: dict[str, Any]) -> Any:
        place, usage = self._place, self.usage()
        if usage is None:
            if isinstance(data, Records):
                # The log's, from before it was given up: in the file, which is behind it, they would count once more.
                self._tell("save", "records that were loaded from the log cannot be saved without it")
                return None
            return self._stock["save_usage"](data)
        try:
            base = data.base if isinstance(data, Records) else None
            saved, beyond = usage.save(data, base, locked=place.locked)
            if saved is None and place.only is not None:
                place.again = True
                return None
            if saved is None:
                usage.take_in()
                with usage.lock():
                    saved, beyond = usage.save(data, base, locked=True)
            if beyond is not None and place.locked:
                place.beyond = beyond
            elif beyond is not None:
                usage.write(beyond)
            if isinstance(data, Records) and saved is not None:
                data.base = saved
        except Exception as error:
            logger.debug("hermes-log: usage was not saved", exc_info=True)
            if usage.refused() is not None:
                self._give_up(usage)
                # One record is changed once more, as the file has it; a mapping of many is the log's.
                place.again = place.only is not None
                if place.again:
                    return None
            self._tell("save", f"a change could not be recorded: {error}")
        return None

