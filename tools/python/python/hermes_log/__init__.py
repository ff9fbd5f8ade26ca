"""An append-only event log for the many processes of one agent profile: nobody waits, nothing is lost.

    from hermes_log import Profile

    profile = Profile()                      # $HERMES_HOME, else ~/.hermes
    with profile.emitter("session") as log:  # telemetry: returns at once, never raises
        log.used("pdf")
    view = profile.view()
    print(view["pdf"]["use_count"], view.skill("pdf").last_used_at)

An `Emitter` counts without waiting, a `Writer` appends and says where or raises, a `View` has the sums, a `Follower` yields
what happens as it happens. A `SkillLock` is for changing a skill's files, `Auth` has the credentials and refreshes each once
for all processes. Skill names are exact; half a surrogate pair in one is kept and read back equal.

Everything but a `SkillLock` can be shared between threads and used in a child made by `os.fork`. Calls that may block
release the GIL. Sub-interpreters cannot import the package: `ImportError`.
"""

from __future__ import annotations

from hermes_log import _interpreter  # noqa: F401  # first: refuses where nothing else may be imported
from hermes_log import errors
from hermes_log._native import (
    Alternate,
    Auth,
    Claim,
    Compacted,
    Compaction,
    Credential,
    CredentialStatus,
    Emitter,
    Event,
    Exported,
    Follower,
    Frame,
    Gap,
    Imported,
    Position,
    Profile,
    RefreshRefused,
    Refreshed,
    Secret,
    SkillLock,
    SkillLocks,
    Skills,
    Status,
    Verified,
    Writer,
)
from hermes_log.errors import Error
from hermes_log.view import SkillRecord, View

__all__ = [
    "Alternate",
    "Auth",
    "Claim",
    "Compacted",
    "Compaction",
    "Credential",
    "CredentialStatus",
    "Emitter",
    "Error",
    "Event",
    "Exported",
    "Follower",
    "Frame",
    "Gap",
    "Imported",
    "Position",
    "Profile",
    "RefreshRefused",
    "Refreshed",
    "Secret",
    "SkillLock",
    "SkillLocks",
    "SkillRecord",
    "Skills",
    "Status",
    "Verified",
    "View",
    "Writer",
    "errors",
]
