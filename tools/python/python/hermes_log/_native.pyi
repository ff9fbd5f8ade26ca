"""The native module. Limits and waits are seconds; times are microseconds since the epoch, in UTC.

Every class but `SkillLock` can be shared between threads. A child of `os.fork` can go on using what its parent opened:
descriptors, threads and locks are made anew in it, and what the parent had not written yet stays the parent's. Calls that
may block release the GIL.
"""

import builtins
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, overload

from hermes_log.view import View as _View

__all__ = [
    "Alternate", "Auth", "Base", "Beyond", "Claim", "Compacted", "Compaction", "Credential", "CredentialStatus", "Emitter",
    "Event", "Exported", "Follower", "Frame", "Gap", "Imported", "Position", "Profile", "RefreshRefused", "Refreshed",
    "Secret", "SkillLock", "SkillLocks", "Skills", "SnapshotLock", "Status", "Usage", "Verified", "View", "Writer",
]  # fmt: skip

_State: TypeAlias = Literal["active", "stale", "archived"]
_Counted: TypeAlias = Literal["used", "viewed", "patched"]
_Plain: TypeAlias = Literal["seeded", "forgotten", "edited", "archived", "restored", "deleted"]
_File: TypeAlias = Literal["file_written", "file_removed"]
_Source: TypeAlias = Literal["installed", "updated"]
_Word: TypeAlias = Literal["ok", "exhausted", "login_required"]

@final
class Position:
    """A place in the log, ordered as the events are. `str()` gives `SEGMENT:OFFSET`, `parse` reads it."""

    def __new__(cls, segment: int, offset: int) -> Position: ...
    @staticmethod
    def parse(text: str) -> Position:
        """Raises `errors.Invalid`."""
    @property
    def segment(self) -> int:
        """Number of the segment."""
    @property
    def offset(self) -> int:
        """Bytes from the start of the segment."""
    def __lt__(self, other: Position, /) -> bool: ...
    def __le__(self, other: Position, /) -> bool: ...
    def __gt__(self, other: Position, /) -> bool: ...
    def __ge__(self, other: Position, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Gap:
    """A stretch of the log that cannot be read."""

    @property
    def position(self) -> Position:
        """Where it begins."""
    @property
    def len(self) -> int | None:
        """How many bytes; None for a missing segment, whose size nobody knows."""
    @property
    def reason(self) -> str:
        """Why, as a phrase."""

@final
class Event:
    """One thing that happened to a skill, for `Writer.append_batch`, and as a `Frame` has it.

    Raises `errors.Invalid` for an unknown kind, an empty name or one over 4,096 bytes of UTF-8, a count that is not a whole
    number from 1, another argument than the kind has, and for `fields` that are counted or cannot hold their value.
    """

    @overload
    def __new__(cls, kind: _Counted, skill: str, *, count: int = 1) -> Event: ...
    @overload
    def __new__(cls, kind: _Plain, skill: str) -> Event: ...
    @overload
    def __new__(cls, kind: Literal["created"], skill: str, *, by: str) -> Event: ...
    @overload
    def __new__(cls, kind: Literal["state"], skill: str, *, state: _State) -> Event: ...
    @overload
    def __new__(cls, kind: Literal["pinned"], skill: str, *, pinned: bool) -> Event: ...
    @overload
    def __new__(
        cls, kind: Literal["fields"], skill: str, *, set: Mapping[str, Any], unset: Sequence[str] = ()
    ) -> Event: ...
    @overload
    def __new__(cls, kind: _File, skill: str, *, path: str) -> Event: ...
    @overload
    def __new__(cls, kind: _Source, skill: str, *, source: str) -> Event: ...
    @property
    def kind(self) -> str:
        """Its kind, such as `used`."""
    @property
    def skill(self) -> str | None:
        """The skill that it is about; None for the compactor's own events."""
    def as_dict(self) -> dict[str, Any]:
        """Kind (`event`), skill and arguments, as `hermes-log tail --json` prints them."""

@final
class Frame:
    """Events that were appended together: they count all or not at all."""

    @property
    def position(self) -> Position:
        """Where it begins."""
    @property
    def time_micros(self) -> int:
        """When it was appended."""
    @property
    def kind(self) -> str:
        """Kind of process that appended it, such as `session`."""
    @property
    def process(self) -> int:
        """Its process id."""
    @property
    def session(self) -> str | None:
        """The session that it served."""
    @property
    def events(self) -> list[Event]:
        """What happened."""

@final
class Compacted:
    """Everything up to and with segment `floor` is in a checkpoint now."""

    @property
    def floor(self) -> int:
        """The segment."""

@final
class Compaction:
    """What a compaction did."""

    @property
    def floor(self) -> int:
        """The last segment that is folded."""
    @property
    def events(self) -> int:
        """Events folded; 0 if there was nothing to fold."""
    @property
    def segments_folded(self) -> int:
        """Segments folded."""
    @property
    def segments_deleted(self) -> int:
        """Segments deleted."""
    @property
    def snapshot(self) -> Literal["unchanged", "written", "busy", "failed"]:
        """What became of `.usage.json`; `busy` and `failed` are left to the next run."""
    @property
    def external(self) -> int:
        """Skills whose records others had changed in it."""
    @property
    def problem(self) -> str | None:
        """Why it is `busy` or `failed`."""
    @property
    def gaps(self) -> list[Gap]:
        """Gaps in what was folded."""
    @property
    def set_aside(self) -> list[Path]:
        """What was set aside under `damaged/`."""

@final
class Status:
    """How the last compaction went."""

    @property
    def started_micros(self) -> int:
        """When it began."""
    @property
    def ended_micros(self) -> int:
        """When it ended."""
    @property
    def floor(self) -> int | None:
        """The floor after it, if it went through."""
    @property
    def error(self) -> str | None:
        """What stopped it, or kept it from `.usage.json`."""

@final
class Verified:
    """What `Profile.verify` found."""

    @property
    def is_sound(self) -> bool:
        """Whether everything checks out."""
    @property
    def checkpoints(self) -> list[int]:
        """Checkpoints that check out, by their floor."""
    @property
    def damaged_checkpoints(self) -> list[int]:
        """Those that do not."""
    @property
    def checkpoint_agrees(self) -> bool | None:
        """Whether the newest is what the older one and the segments between give; None if that cannot be told."""
    @property
    def frames(self) -> int:
        """Frames that count in the segments that were read."""
    @property
    def events(self) -> int:
        """Events in them that this version understands."""
    @property
    def voids(self) -> int:
        """Frames that were appended again elsewhere."""
    @property
    def carried(self) -> int:
        """Payloads of a newer version."""
    @property
    def gaps(self) -> list[Gap]:
        """Gaps, in log order."""
    @property
    def snapshot_problems(self) -> list[str]:
        """What is wrong with `.usage.json`."""
    @property
    def position(self) -> Position:
        """Up to where the log was read."""

@final
class Profile:
    """A profile of an agent, by its home: `home`, else `$HERMES_HOME`, else `~/.hermes`. Nothing is made or read until
    something is opened in it.

    `capacity`: bytes of the segments that this process creates, 4,096 to 268,435,456. `allow_network_fs`: go on where
    appends of several hosts are not atomic; each append then takes a lock. `reviews_are_views`: uses by processes of kind
    `review` are shown as views. Raises `errors.NoHome`.
    """

    def __new__(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        capacity: int | None = None,
        allow_network_fs: bool = False,
        reviews_are_views: bool = False,
    ) -> Profile: ...
    @staticmethod
    def named(name: str) -> Profile:
        """A profile by its name, `default` or one of `<root>/profiles`. Raises `errors.Invalid`, `errors.NotFound`."""
    @property
    def home(self) -> Path:
        """Its home."""
    @property
    def log_folder(self) -> Path:
        """The folder of the log."""
    @property
    def snapshot_path(self) -> Path:
        """`.usage.json`."""
    def __fspath__(self) -> str: ...
    def emitter(self, kind: str, session: str | None = None, *, compact_after: int | None = ...) -> Emitter:
        """Opens telemetry for a process of a kind (`session`, `gateway`, `cron`, `batch`, `review`, ...). Its background
        thread compacts when sealed segments pass `compact_after` bytes (16 MiB); None: never.
        """
    def writer(self, kind: str, session: str | None = None) -> Writer:
        """Opens the log for appending, made if need be. Raises `errors.NotFound` if there is no home,
        `errors.NetworkFileSystem`, `errors.Exposed`, `errors.Invalid`, `errors.Io`.
        """
    def view(self) -> _View:
        """Opens a view; a profile without a log is an empty one. Raises as `View.refresh`."""
    def follow(
        self, start: Literal["now", "oldest"] | str | Position | None = None, *, idle_limit: float | None = None
    ) -> Follower:
        """Follows the log from now, from the oldest segment that is kept, or from a position. The iteration ends when
        nothing came for `idle_limit` seconds; None: never. Raises `errors.PositionCompacted`, `errors.Io`.
        """
    def auth(self, kind: str, session: str | None = None) -> Auth:
        """Opens the credentials, for a process of a kind. Only reads; nothing is made before the first change. Raises as
        `View.refresh`.
        """
    def skills(self, kind: str, session: str | None = None, *, limit: float = 30.0) -> Skills:
        """The skills' files, for a process of a kind. `limit`: for each wait for a lock; 0: one attempt."""
    def skill_lock(
        self, name: str, limit: float = 30.0, *, kind: str = ..., session: str | None = None
    ) -> SkillLock:
        """The lock of one skill, to be entered by `with`, which waits at most `limit`; 0: one attempt. `kind` is that of the
        process, `session` if nothing else is said; `review` and `curator` are refused what
        Hermes refuses them.
        """
    def skill_locks(
        self, names: Sequence[str], limit: float = 30.0, *, kind: str = ..., session: str | None = None
    ) -> SkillLocks:
        """The locks of several skills, entered together; `limit` is for all of them."""
    def compact(
        self, *, lock_wait: float = 60.0, snapshot_wait: float = 10.0, retain: float = 3600.0, scrub: bool = False
    ) -> Compaction:
        """Folds the log into a checkpoint and a fresh `.usage.json`. Waits at most `lock_wait` for another compactor and
        `snapshot_wait` for who holds `.usage.json.lock`; keeps folded segments for `retain`, at most 256. `scrub`: leaves no
        secret that was replaced before in any segment or checkpoint; nothing is retained. It may die at any point, and
        nothing is lost. Raises `errors.LockTimeout` and whatever stops it.
        """
    def verify(self) -> Verified:
        """Reads everything and changes nothing. Damage is a finding; raises `errors.Io`, `errors.NewerFormat`."""
    def last_compaction(self) -> Status | None:
        """How the last compaction went; None: there was none, or it died. Raises `errors.Io`."""
    def _usage(self, kind: str) -> Usage: ...

@final
class Emitter:
    """Telemetry: returns at once and never raises, whatever it is given. What is not allowed is counted as `refused`.

    Events go into a channel (32,768; the caller appends when it is full) and to the log by a background thread, within
    about a millisecond. While the log cannot be written 262,144 events are kept. An event is acknowledged by a `flush` that
    returns; leaving a `with` block, and the end of the last reference, flush for at most 5 seconds. A process that is
    killed, or ends by `os._exit`, takes with it what was not flushed.
    """

    def used(self, skill: str, count: int | None = None) -> None:
        """The skill was used, once or `count` times."""
    def viewed(self, skill: str, count: int | None = None) -> None:
        """The skill was viewed, once or `count` times."""
    def patched(self, skill: str, count: int | None = None) -> None:
        """The skill was patched, once or `count` times."""
    @overload
    def emit(self, kind: _Counted, skill: str, *, count: int = 1) -> None: ...
    @overload
    def emit(self, kind: _Plain, skill: str) -> None: ...
    @overload
    def emit(self, kind: Literal["created"], skill: str, *, by: str) -> None: ...
    @overload
    def emit(self, kind: Literal["state"], skill: str, *, state: _State) -> None: ...
    @overload
    def emit(self, kind: Literal["pinned"], skill: str, *, pinned: bool) -> None: ...
    @overload
    def emit(
        self, kind: Literal["fields"], skill: str, *, set: Mapping[str, Any], unset: Sequence[str] = ()
    ) -> None: ...
    @overload
    def emit(self, kind: _File, skill: str, *, path: str) -> None: ...
    @overload
    def emit(self, kind: _Source, skill: str, *, source: str) -> None: ...
    def flush(self, limit: float = 5.0) -> None:
        """Returns when everything emitted before is in the log. Raises what was lost since the last flush, else what keeps
        the log from being written (then events are kept, and tried again); `errors.FlushTimeout` after `limit`.
        """
    def counters(self) -> dict[str, int]:
        """What became of the events: `emitted`, `merged`, `appended`, `voided`, `failed` (of which `refused`, `given_up`,
        `unacknowledged`), `queued`, `waiting`.
        """
    def __enter__(self) -> Emitter: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Writer:
    """Appends in the caller, and says where or raises. No lock is taken and nobody is waited for.

    An append is acknowledged when it is in the kernel, with `durable` when it is on the disk. Raises `errors.Invalid`
    (nothing was appended), `errors.NotRecorded` (it is not in the log), `errors.NotDurable` (it is, the disk did not
    confirm it), `errors.NotAcknowledged` (it counts 0 or 1 times).
    """

    @overload
    def append(self, kind: _Counted, skill: str, *, durable: bool = False, count: int = 1) -> Position: ...
    @overload
    def append(self, kind: _Plain, skill: str, *, durable: bool = False) -> Position: ...
    @overload
    def append(self, kind: Literal["created"], skill: str, *, durable: bool = False, by: str) -> Position: ...
    @overload
    def append(self, kind: Literal["state"], skill: str, *, durable: bool = False, state: _State) -> Position: ...
    @overload
    def append(self, kind: Literal["pinned"], skill: str, *, durable: bool = False, pinned: bool) -> Position: ...
    @overload
    def append(
        self,
        kind: Literal["fields"],
        skill: str,
        *,
        durable: bool = False,
        set: Mapping[str, Any],
        unset: Sequence[str] = (),
    ) -> Position: ...
    @overload
    def append(self, kind: _File, skill: str, *, durable: bool = False, path: str) -> Position: ...
    @overload
    def append(self, kind: _Source, skill: str, *, durable: bool = False, source: str) -> Position: ...
    def append_batch(self, events: Sequence[Event], *, durable: bool = False) -> Position:
        """Appends events that count all or not at all, together at most 1 MiB or a quarter of a segment."""

@final
class Follower:
    """Yields frames, gaps and compactions as they come, across rotation and compaction. It holds nothing that anybody
    could wait for. An iteration that waits answers Ctrl-C within a tenth of a second.

    Raises `errors.PositionCompacted` when it is further behind than segments are kept, `errors.Io`.
    """

    @property
    def position(self) -> Position:
        """Where to go on: behind everything that was yielded."""
    def sync(self) -> None:
        """Makes durable what was read, before its position is saved: a position that is saved before could, after a power
        loss, point behind events that the log has lost.
        """
    def next_batch(self, limit: float = 0.0) -> list[Frame | Gap | Compacted]:
        """What is there, of one segment at most; waits up to `limit` seconds for something."""
    def __iter__(self) -> Follower: ...
    def __next__(self) -> Frame | Gap | Compacted: ...

@final
class Skills:
    """The skills' files of a profile. Reading takes no lock."""

    def list(self) -> builtins.list[tuple[str, Path]]:
        """Name and folder of each skill that is not archived, sorted by name. Raises `errors.Io`."""
    def archived(self) -> builtins.list[tuple[str, Path]]:
        """The same of the archive."""
    def find(self, name: str) -> Path | None:
        """The folder of a skill as of now: it may be elsewhere in a moment, unless its lock is held. Raises `errors.Io`."""
    def restore(self, name: str) -> Path:
        """Brings a skill back from the archive, flat under its name; returns its folder. Raises `errors.NotFound`;
        `errors.Refused` if a skill of that name is there, or where Hermes refuses it; `errors.NotLogged`, `errors.Io`,
        `errors.LockTimeout`; `errors.Invalid` if this thread has a lock.
        """

@final
class SkillLock:
    """The exclusive lock of one skill, held in a `with` block: of its folder, or, if it is not there, for its creation.

    Entering it raises `errors.LockTimeout`, which has the `path`, who is the `holder` and the seconds `waited`;
    `errors.Invalid` for an empty name, and if this thread has a lock already (several are entered together, see
    `Profile.skill_locks`); `errors.Unsettled`, `errors.Io`. Ctrl-C is answered when the wait is over.

    It belongs to the thread that entered it; from another one, after the block, and in a forked child, which neither holds
    nor releases it, each call raises `errors.Refused`. It is released at the end of the block, and by the death of its
    process or thread.

    A change is whole or not there, whatever happens, and it is in the log when its call returns. Each raises
    `errors.NotFound` if the skill is not there, `errors.Refused` (nothing was done), `errors.Invalid`, `errors.Io`;
    `errors.NotLogged`: it was done, and the event is not in the log. Text is written as UTF-8.
    """

    def __enter__(self) -> SkillLock: ...
    def __exit__(self, *exception: object) -> None: ...
    @property
    def name(self) -> str:
        """The skill."""
    @property
    def folder(self) -> Path | None:
        """Its folder; None if it is not there."""
    def create(self, content: str | bytes, category: str | None = None, *, by: str) -> Path:
        """Makes the skill, with this `SKILL.md`; `by` is who did (`agent` puts it under the curator). Returns its folder.
        The lock is used up, also if this raises.
        """
    def edit(self, content: str | bytes) -> None:
        """Replaces the whole `SKILL.md`. Its front matter must not name another skill."""
    def write_file(self, path: str, content: str | bytes) -> None:
        """Writes a file, `path` being relative to the skill's folder; folders are made."""
    def remove_file(self, path: str) -> None:
        """Removes a file; never its `SKILL.md`. Raises `errors.NotFound` also for the file."""
    def delete(self) -> None:
        """Deletes the skill; a pinned one is refused. Raises `errors.LockTimeout` as well. The lock is used up, also if this
        raises.
        """
    def archive(self) -> Path:
        """Moves it to the archive; returns where it is. Refused where Hermes refuses it. Raises `errors.LockTimeout` as
        well. The lock is used up, also if this raises.
        """
    def install(self, folder: str | os.PathLike[str], category: str | None = None, *, source: str) -> Path:
        """Makes the skill as a copy of a folder; `source` says in the log where it came from. Returns its folder. The lock
        is used up, also if this raises.
        """
    def update(self, folder: str | os.PathLike[str], *, source: str) -> None:
        """Replaces the skill by a folder's content. The lock is used up, also if this raises."""

@final
class SkillLocks:
    """The locks of several skills: a `with` block has them all, in the order of the names, or raises as `SkillLock` does and
    has none. Processes that want the same skills in another order do not wait for each other for ever.
    """

    def __enter__(self) -> list[SkillLock]: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Secret:
    """A secret text. Printed, it is `[redacted]`; it is compared in constant time, and cannot be hashed, pickled, copied or
    put into JSON.
    """

    def reveal(self) -> str:
        """The text. Python keeps copies of it, which nothing wipes."""
    def __eq__(self, other: object, /) -> bool: ...

@final
class Credential:
    """A credential as it was when it was asked for; read-only."""

    @property
    def provider(self) -> str:
        """Its provider."""
    @property
    def id(self) -> str:
        """Its id; `@provider` is what `auth.json` has for the provider itself, others are of the pool."""
    @property
    def generation(self) -> int:
        """The count of its token changes, from 1."""
    @property
    def obtained_micros(self) -> int:
        """When its tokens came back."""
    @property
    def fields(self) -> Mapping[str, Any]:
        """Its fields, with `[redacted]` in the place of each secret, at any depth."""
    def secret(self, name: str) -> Secret:
        """A field that holds a text, secret or not. Raises `KeyError`."""
    def reveal(self) -> dict[str, Any]:
        """All fields with their secrets."""
    @property
    def status(self) -> CredentialStatus | None:
        """What using its tokens showed, if anybody said."""
    @property
    def claim(self) -> Claim | None:
        """The newest claim to exchange them."""
    @property
    def alternates(self) -> list[Alternate]:
        """Tokens beside the current ones, oldest first, at most 8."""
    @property
    def needs_login(self) -> bool:
        """Whether the server refused them: only a login helps."""
    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows what became of them: who claimed to exchange them never said, and the lease has run out."""
    @property
    def is_refreshed(self) -> bool:
        """Whether they came from an exchange, not from a login or import."""

@final
class CredentialStatus:
    """What using a credential showed."""

    @property
    def kind(self) -> _Word:
        """The word."""
    @property
    def code(self) -> int | None:
        """The server's code, such as 429."""
    @property
    def reset_micros(self) -> int | None:
        """When it can be used again."""
    @property
    def message(self) -> str | None:
        """For people, without secrets."""

@final
class Claim:
    """Somebody's claim to exchange the current tokens."""

    @property
    def holder(self) -> str:
        """Whose it is, such as `session 1234`."""
    @property
    def left(self) -> float:
        """Seconds that are left of the lease now."""
    @property
    def failure(self) -> str | None:
        """Why the exchange failed, if it is known to have; without secrets."""
    @property
    def is_held(self) -> bool:
        """Whether somebody may be exchanging the tokens now."""

@final
class Alternate:
    """Tokens that came back from an exchange, or were there before a login, and are not the current ones."""

    @property
    def base(self) -> int:
        """The generation that was exchanged for them."""
    @property
    def obtained_micros(self) -> int:
        """When they came back."""
    @property
    def fields(self) -> Mapping[str, Any]:
        """As `Credential.fields`."""
    def secret(self, name: str) -> Secret:
        """As `Credential.secret`."""
    def reveal(self) -> dict[str, Any]:
        """As `Credential.reveal`."""

@final
class Refreshed:
    """What a refresh came to, here or in another process."""

    @property
    def generation(self) -> int:
        """The current generation."""
    @property
    def is_own(self) -> bool:
        """Whether the exchange was called here."""
    @property
    def fields(self) -> Mapping[str, Any]:
        """As `Credential.fields`."""
    def secret(self, name: str) -> Secret:
        """As `Credential.secret`."""
    def reveal(self) -> dict[str, Any]:
        """As `Credential.reveal`."""

@final
class Imported:
    """What an import did."""

    @property
    def new(self) -> int:
        """Credentials that were not there, or have secrets that were never seen: a new generation."""
    @property
    def updated(self) -> int:
        """Credentials whose secrets are the current ones, and whose other fields were taken over."""
    @property
    def unchanged(self) -> int:
        """Credentials that are in the log as they stand in the file."""
    @property
    def old(self) -> int:
        """Credentials whose secrets were replaced or removed before: an old copy, passed over."""
    @property
    def problems(self) -> list[str]:
        """What is wrong with the file, as phrases without secrets."""

@final
class Exported:
    """What an export did."""

    @property
    def written(self) -> int:
        """Credentials written."""
    @property
    def unknown(self) -> list[str]:
        """Credentials whose secrets in the file the log does not know, left as they are: import the file first."""
    @property
    def set_aside(self) -> Path | None:
        """Where a damaged file was set aside."""

class RefreshRefused(Exception):
    """Raised by an exchange when the server refused the tokens: nobody tries again before the next login."""

@final
class Auth:
    """The credentials of a profile, as of the last change here or `refresh`. Reading takes no lock and waits for nobody.

    A change is on the disk when its call returns. Each raises `errors.Invalid` for names that are empty or over 1,024 bytes
    of UTF-8, `errors.NotRecorded` (it is not in the log), `errors.NotDurable` (it is, the disk did not confirm it). No
    message and no attribute of these errors holds a secret.
    """

    def refresh(self) -> None:
        """Takes in what is new. Raises as `View.refresh`."""
    def credential(self, provider: str, credential: str) -> Credential | None:
        """One credential."""
    def credentials(self) -> list[Credential]:
        """All, by provider and id."""
    @property
    def active_provider(self) -> str | None:
        """The provider that is used unless another one is asked for."""
    def is_suppressed(self, provider: str, source: str) -> bool:
        """Whether credentials from this source are not taken in."""
    @property
    def gaps(self) -> list[Gap]:
        """What cannot be read of the log above the newest checkpoint."""
    def set(
        self, provider: str, credential: str, fields: Mapping[str, Any], *, secrets: Sequence[str] = ...
    ) -> int:
        """Sets all fields of a credential, as a login does; returns its generation. With other secrets than before it is a
        new one, and the old secrets are gone with the next compactions. `secrets` names fields that are secrets here, besides
        those whose names say so (`access_token`, `apiKey`, `password`, ...). Raises `errors.Invalid` also for fields that
        hold `[redacted]`, `TypeError` and `ValueError` for what is no JSON.
        """
    def remove(self, provider: str, credential: str) -> None:
        """Removes a credential; an old copy does not bring it back. Raises `errors.NotFound`."""
    def set_status(
        self,
        provider: str,
        credential: str,
        generation: int,
        kind: _Word,
        *,
        code: int | None = None,
        reset_micros: int | None = None,
        message: str | None = None,
    ) -> None:
        """Says what using a generation's tokens showed. About an older one than the current it changes nothing."""
    def set_active(self, provider: str | None) -> None:
        """Sets the provider that is used unless another one is asked for."""
    def suppress(self, provider: str, source: str) -> None:
        """Credentials of this source are not taken in any more."""
    def unsuppress(self, provider: str, source: str) -> None:
        """They are again."""
    def import_file(self, path: str | os.PathLike[str]) -> Imported:
        """Takes in the credentials of an `auth.json`, which is only read. Raises `errors.Io`, and nothing is taken in."""
    def export_file(self, path: str | os.PathLike[str]) -> Exported:
        """Writes the credentials into an `auth.json` for who reads that, under Hermes's own lock (waits at most 30 seconds).
        What else stands in it stays. Raises `errors.LockTimeout`, `errors.Io`: the file is as it was.
        """
    def wait_for_generation(self, provider: str, credential: str, generation: int, limit: float) -> int | None:
        """Waits until a credential has another generation than this one; None: the exchange failed, or the lease of who has
        claimed it has run out, or nobody has. Raises `errors.RefreshTimeout` after `limit`, `errors.NotFound`.
        """
    def refresh_with(
        self,
        provider: str,
        credential: str,
        generation: int,
        exchange: Callable[[dict[str, Any]], Mapping[str, Any]],
        *,
        lease: float = 30.0,
        wait: float = 60.0,
    ) -> Refreshed:
        """Refreshes a credential whose tokens of `generation` are not good any more. `exchange` is called in one of all
        processes and threads that ask, without any lock held, with the current fields, secrets included. It returns those
        that the server gave; what it leaves out stays. The others wait at most `wait` for its result.

        `lease`: seconds until somebody else may try, above 0 and at most 3,600; longer than the exchange can take, with its
        own time limit. If the process dies in it, nobody tries again before that.

        If `exchange` raises `RefreshRefused`, the server refused the tokens: this and every later call raises
        `errors.LoginRequired` until the next login. Whatever else it raises is recorded as a failure, without secrets, and
        comes out as it is; those who waited get `errors.RefreshFailed`. Fields that are no JSON are left out of what is
        recorded, and `TypeError` is raised after that. Raises `errors.NotFound`, `errors.RefreshTimeout`,
        `errors.Invalid` for a lease or a generation that cannot be.
        """

@final
class View:
    """What `hermes_log.View` wraps."""

    def refresh(self) -> None: ...
    def wait_for(self, position: Position, limit: float) -> None: ...
    def record(self, skill: str) -> dict[str, Any] | None: ...
    def records(self) -> dict[str, dict[str, Any]]: ...
    def names(self) -> list[str]: ...
    @property
    def position(self) -> Position: ...
    @property
    def floor(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def frames(self) -> int: ...
    @property
    def gaps(self) -> list[Gap]: ...
    @property
    def gap_count(self) -> int: ...
    @property
    def snapshot_problems(self) -> list[str]: ...

# For the plugin.

@final
class SnapshotLock:
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Base:
    def __new__(cls) -> Base: ...

@final
class Beyond: ...

@final
class Usage:
    def count(self, skill: str, mutator: Callable[[dict[str, Any]], Any]) -> bool: ...
    def load(self, only: str | None = None) -> tuple[dict[str, dict[str, Any]], Base]: ...
    def save(
        self, records: dict[str, Any], base: Base | None, *, locked: bool
    ) -> tuple[Base | None, Beyond | None]: ...
    def write(self, beyond: Beyond) -> None: ...
    def take_in(self, only: str | None = None) -> None: ...
    def lock(self) -> SnapshotLock: ...
    def refused(self) -> str | None: ...
    def trouble(self) -> tuple[int, int]: ...
    def flush(self, limit: float) -> None: ...
