"""Not run: what mypy checks in the stubs, against the use that the package is made for."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, assert_type

from hermes_log import (
    Compacted,
    Event,
    Follower,
    Frame,
    Gap,
    Position,
    Profile,
    RefreshRefused,
    Refreshed,
    Secret,
    SkillLock,
    SkillRecord,
    View,
    errors,
)


def used(profile: Profile) -> None:
    with profile.emitter("session") as log:
        log.used("pdf")
        log.emit("state", "pdf", state="stale")
        log.emit("state", "pdf", state="asleep")  # type: ignore[call-overload]
        log.emit("created", "pdf")  # type: ignore[call-overload]
    writer = profile.writer("cron", session="nightly")
    assert_type(writer.append("used", "pdf", count=3, durable=True), Position)
    assert_type(writer.append_batch([Event("archived", "pdf"), Event("fields", "pdf", set={"x": 1})]), Position)

    view = profile.view()
    assert_type(view, View)
    assert_type(view["pdf"], dict[str, Any])
    record = view.skill("pdf")
    assert_type(record, SkillRecord | None)
    if record is not None:
        assert_type(record.use_count, int)
        assert_type(record.last_used_at, datetime | None)
        assert_type(record.state, Literal["active", "stale", "archived"])
    view.wait_for(Position.parse("1:64"), 2.0)

    follower = profile.follow("oldest", idle_limit=1)
    assert_type(follower, Follower)
    for item in follower:
        assert_type(item, Frame | Gap | Compacted)
    try:
        profile.compact(lock_wait=0)
    except errors.LockTimeout as error:
        assert isinstance(error, TimeoutError)
    assert_type(profile.verify().is_sound, bool)


def locked(profile: Profile) -> None:
    with profile.skill_lock("pdf", 5) as lock:
        assert_type(lock, SkillLock)
        assert_type(lock.folder, Path | None)
        lock.write_file("a.txt", b"x")
        lock.create("x")  # type: ignore[call-arg]
    with profile.skill_locks(["pdf", "git"]) as locks:
        assert_type([lock.name for lock in locks], list[str])
    assert_type(profile.skills("session").list(), list[tuple[str, Path]])


def exchange(fields: dict[str, Any]) -> Mapping[str, Any]:
    if not fields:
        raise RefreshRefused("invalid_grant")
    return {"access_token": "x"}


def refreshed(profile: Profile) -> None:
    auth = profile.auth("session")
    credential = auth.credential("nous", "main")
    if credential is not None:
        assert_type(credential.fields, Mapping[str, Any])
        assert_type(credential.secret("access_token"), Secret)
        assert_type(auth.refresh_with("nous", "main", credential.generation, exchange), Refreshed)
    auth.refresh_with("nous", "main", 1, lambda fields: None)  # type: ignore[arg-type, return-value]
    auth.set_status("nous", "main", 1, "fine")  # type: ignore[arg-type]
