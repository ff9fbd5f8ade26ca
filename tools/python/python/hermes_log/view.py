"""The sums: a view of a profile, as a mapping of plain records and as typed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

TYPE_CHECKING = False  # without importing typing
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Literal

    from hermes_log import _native
    from hermes_log._native import Gap, Position


class SkillRecord:
    """One skill's record, typed. What is missing or unreadable in an old record is what Hermes takes it for."""

    __slots__ = ("fields", "name")

    name: str
    """Its exact name."""
    fields: dict[str, Any]
    """The whole record as it stands in `.usage.json`, fields of forks and newer versions included."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SkillRecord):
            return NotImplemented
        return self.name == other.name and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SkillRecord({self.name!r}, {self.fields!r})"

    @property
    def use_count(self) -> int:
        """How often it was used."""
        return self._count("use_count")

    @property
    def view_count(self) -> int:
        """How often it was viewed."""
        return self._count("view_count")

    @property
    def patch_count(self) -> int:
        """How often it was patched."""
        return self._count("patch_count")

    @property
    def activity(self) -> int:
        """Uses, views and patches together."""
        return self.use_count + self.view_count + self.patch_count

    @property
    def last_used_at(self) -> datetime | None:
        """When it was last used, in UTC."""
        return self._time("last_used_at")

    @property
    def last_viewed_at(self) -> datetime | None:
        """When it was last viewed, in UTC."""
        return self._time("last_viewed_at")

    @property
    def last_patched_at(self) -> datetime | None:
        """When it was last patched, in UTC."""
        return self._time("last_patched_at")

    @property
    def last_activity_at(self) -> datetime | None:
        """The newest of the three."""
        times = (self.last_used_at, self.last_viewed_at, self.last_patched_at)
        return max((time for time in times if time is not None), default=None)

    @property
    def created_at(self) -> datetime | None:
        """When the record was made, in UTC."""
        return self._time("created_at")

    @property
    def archived_at(self) -> datetime | None:
        """When it was archived, in UTC; None if it is not."""
        return self._time("archived_at")

    @property
    def created_by(self) -> str | None:
        """Its maker: "agent" puts it under the curator."""
        maker = self.fields.get("created_by")
        return maker if isinstance(maker, str) else None

    @property
    def state(self) -> Literal["active", "stale", "archived"]:
        """Its lifecycle state; "active" for a word that only a fork knows."""
        word = self.fields.get("state")
        return word if word in ("stale", "archived") else "active"

    @property
    def pinned(self) -> bool:
        """Whether it is exempt from automatic transitions. Only `True` is pinned."""
        return self.fields.get("pinned") is True

    def _count(self, field: str) -> int:
        count = self.fields.get(field)
        return count if isinstance(count, int) else 0

    def _time(self, field: str) -> datetime | None:
        from datetime import datetime, timezone

        try:
            time = datetime.fromisoformat(self.fields[field])
        except (KeyError, TypeError, ValueError):
            return None
        return time.astimezone(timezone.utc) if time.tzinfo else time.replace(tzinfo=timezone.utc)


class View(Mapping[str, "dict[str, Any]"]):
    """What a profile's log and `.usage.json` say, as of the last `refresh`: name to record, sorted by name.

    `Profile.view` opens one. It takes no lock and writes nothing, and no value in it goes backwards. Records are copies:
    changing them changes nothing.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.View) -> None:
        self._native = native

    def __getitem__(self, skill: str) -> dict[str, Any]:
        record = self._native.record(skill) if isinstance(skill, str) else None
        if record is None:
            raise KeyError(skill)
        return record

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names())

    def __len__(self) -> int:
        return len(self._native.names())

    def records(self) -> dict[str, dict[str, Any]]:
        """All records at once, of one moment."""
        return self._native.records()

    def skill(self, skill: str) -> SkillRecord | None:
        """One skill, typed, in constant time."""
        record = self._native.record(skill)
        return None if record is None else SkillRecord(skill, record)

    def skills(self) -> list[SkillRecord]:
        """All skills, typed, sorted by name."""
        return [SkillRecord(name, record) for name, record in self._native.records().items()]

    def refresh(self) -> None:
        """Takes in what is new. With nothing new it costs one `lseek` and one `stat`.

        Raises `errors.Io`: something could not be read, and the view stays as it was or is ahead by whole frames;
        `errors.NewerFormat`, `errors.Exposed`, `errors.Damaged`: no checkpoint can be read.
        """
        self._native.refresh()

    def wait_for(self, position: Position, limit: float) -> None:
        """Refreshes until the event at `position` is in the view, at most `limit` seconds; then `errors.NotReached`."""
        self._native.wait_for(position, limit)

    @property
    def position(self) -> Position:
        """How far the log was read: everything that begins before it is in the view."""
        return self._native.position

    @property
    def events(self) -> int:
        """How many events the log has had."""
        return self._native.events

    @property
    def frames(self) -> int:
        """How many frames the log has had."""
        return self._native.frames

    @property
    def floor(self) -> int:
        """The last segment of the checkpoint that the view began from."""
        return self._native.floor

    @property
    def gap_count(self) -> int:
        """How many stretches of the log could not be read in its whole history."""
        return self._native.gap_count

    @property
    def gaps(self) -> list[Gap]:
        """The newest of them, at most 256."""
        return self._native.gaps

    @property
    def snapshot_problems(self) -> list[str]:
        """What is wrong with `.usage.json`, as phrases; empty if nothing is."""
        return self._native.snapshot_problems
