"""The plugin for Hermes Agent: its usage of skills goes through the log, its code stays what it is.

`hermes_log_start` calls `activate` in every process of Hermes that works on `.usage.json`. Six functions of
`tools.skill_usage` get other code (`hooks`), which keeps records in the log instead of the file (`storage`); everything
above them, mutators, curator and reports, is Hermes's own. A mutator runs on a copy of the folded record, and what it
changed becomes events.

What differs from the file:

- A count that went up is an event, and its time is that of the event.
- A count that was set down, a time that was set back, and a record that was made with a past are no events. The record is
  written to `.usage.json`, from where the log takes it as the work of another program; it takes a compaction, and the old
  record ends. A mapping that did not come from `load_usage` sets nothing back: it could as well be old.
- A mutator that sets fields that hermes-log does not know runs twice, the second time under the lock of `.usage.json`.
- A skill's name may hold half a surrogate pair.

When the log can no longer be written (a full disk apart, where events are kept and tried again), the process goes on with
the file alone, with one warning. The log takes that in as the work of another program once it can be written again.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

from hermes_log import Profile, errors
from hermes_log._native import Position
from hermes_log.hermes import structure
from hermes_log.hermes.hooks import BACK
from hermes_log.hermes.storage import Storage

logger = logging.getLogger("hermes_log")

USAGE = "tools.skill_usage"


def register(ctx: Any) -> None:
    """Called when Hermes loads its plugins."""
    import tools.skill_usage

    activate(tools.skill_usage)
    if hasattr(ctx, "register_cli_command"):
        from hermes_log.hermes import __main__ as command

        ctx.register_cli_command(
            name="hermes-log",
            help="The event log behind skill usage: is it active, what is in it",
            setup_fn=command.arguments,
            handler_fn=command.run,
        )


def activate(module: ModuleType) -> bool:
    """Sends the storage of a `tools.skill_usage` through the log, if it is one that can be hooked. Returns whether it is."""
    storage = active(module)
    if storage is not None:
        return True
    reason = structure.obstacle(module)
    if reason is None:
        Storage(module)
        return True
    import hermes_log_start

    hermes_log_start.warn(reason)
    return False


def active(module: ModuleType | None = None) -> Storage | None:
    """The storage that is hooked into `tools.skill_usage`, if it is."""
    module = module or sys.modules.get(USAGE)
    storage = getattr(module, BACK, None)
    # A module that was executed again has its own functions, and the name of the hook from before.
    return storage if isinstance(storage, Storage) and storage.is_in(module) else None


def deactivate(module: ModuleType | None = None) -> None:
    """Takes the hooks out of this process, and hands back."""
    module = module or sys.modules.get(USAGE)
    storage = active(module)
    if storage is not None:
        storage.remove()
        delattr(module, BACK)
        hand_back()


def hand_back(profile: Profile | None = None) -> bool:
    """Puts into `.usage.json` what the log has beyond it. Returns whether the file is complete."""
    if profile is None:
        from hermes_constants import get_hermes_home

        profile = Profile(get_hermes_home())
    try:
        if not profile.log_folder.is_dir():
            return True
        view = profile.view()
        if view.position == Position(view.floor + 1, 64) and profile.snapshot_path.exists():
            return True  # nothing since the last compaction
        done = profile.compact()
    except errors.Error as error:
        logger.warning("hermes-log: .usage.json lacks what is in the log: %s", error)
        return False
    if done.problem:
        logger.warning("hermes-log: .usage.json lacks what is in the log: %s", done.problem)
    return done.problem is None
