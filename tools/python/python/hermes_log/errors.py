"""Everything that can go wrong: one class for each variant of the Rust enum.

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


class Io(Error, OSError):
    """A system call failed. Nothing was written on the strength of it."""


class NotRecorded(Error):
    """Some events of an append are not in the log and will not be: `recorded` frames of the call are."""


class NotDurable(Error):
    """The events are in the log and counted, but the disk did not confirm them: a power loss may still take them. They
    must not be appended again, or they would count twice.
    """


class NotAcknowledged(Error):
    """Events were written, but the system would not say where the write ended: they count 0 or 1 times, and the next
    view tells which.
    """


class Invalid(Error, ValueError):
    """The caller's input is not allowed. Nothing was done."""


class NoHome(Error):
    """Neither `HERMES_HOME` nor `HOME` says where the profile is."""


class NotFound(Error, LookupError):
    """The profile, skill or segment is not there."""


class NewerFormat(Error):
    """A newer version of hermes-log wrote this. It is left alone."""


class NetworkFileSystem(Error):
    """Appends of several hosts or mounts are not atomic on this file system."""


class Exposed(Error):
    """Others can read a file or folder of the log, and this process may not, or must not, change that."""


class LockTimeout(Error, TimeoutError):
    """A lock could not be had in time. Nothing was done without it."""


class Refused(Error):
    """The skill is left alone, and nothing was done."""


class NotLogged(Error):
    """A skill's files were changed, and the event that says so is not in the log. The change must not be done again."""


class Damaged(Error):
    """A file is damaged in a way that cannot be read around."""


class Unsettled(Error):
    """The folder of the log changed under a process too many times in a row to go on."""


class PositionCompacted(Error):
    """What stood at the position is in a checkpoint now (or belongs to another log), and no longer read event by
    event. To go on without a hole: open a `View`, which has the sums, and follow from its position.
    """


class FlushTimeout(Error, TimeoutError):
    """The emitter could not be flushed in time; what was emitted is kept."""


class Waiting(Error):
    """The log cannot be written now. What was emitted is kept, and tried again."""


class GivenUp(Error):
    """The log could not be written for so long that events were given up."""


class LoginRequired(Error):
    """The server refused the credential's tokens: trying again does not help. Nothing was sent."""


class RefreshFailed(Error):
    """An exchange of tokens failed, here or in the process that had the claim. The tokens stay as they were."""


class RefreshTimeout(Error, TimeoutError):
    """Another process went on exchanging the tokens until the limit. The tokens stay as they were."""


class NotReached(Error, TimeoutError):
    """A position did not become visible in time."""


__all__ = [
    "Damaged",
    "Error",
    "Exposed",
    "FlushTimeout",
    "GivenUp",
    "Invalid",
    "Io",
    "LockTimeout",
    "LoginRequired",
    "NetworkFileSystem",
    "NewerFormat",
    "NoHome",
    "NotAcknowledged",
    "NotDurable",
    "NotFound",
    "NotLogged",
    "NotReached",
    "NotRecorded",
    "PositionCompacted",
    "RefreshFailed",
    "RefreshTimeout",
    "Refused",
    "Unsettled",
    "Waiting",
]
