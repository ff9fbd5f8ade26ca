"""`python -m hermes_log.hermes status`: is the plugin active, for which home, what is in the log."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, timezone
from typing import Any

from hermes_log import Profile, errors


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments, also those of `hermes hermes-log`."""
    commands = parser.add_subparsers(dest="hermes_log_command", metavar="COMMAND")
    status = commands.add_parser("status", help="is the plugin active, for which home, how many events, when was the last compaction")
    status.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """`status` is what there is."""
    found = status()
    if getattr(args, "json", False):
        print(json.dumps(found, indent=2))
        return 0
    compaction = found["last_compaction"]
    rows = {
        "plugin": "active" if found["active"] else f"not active: {found['reason']}",
        "hermes-agent": found["hermes_version"] or "not installed",
        "home": found["home"],
        "events": "no log" if found["events"] is None else f"{found['events']:,}",
        "last compaction": "none" if compaction is None else compaction,
    }
    for name, value in rows.items():
        print(f"{name:<16} {value}")
    return 0


def status() -> dict[str, Any]:
    """The same as a mapping."""
    profile, reason = Profile(), _obstacle()
    events, last = None, None
    try:
        if profile.log_folder.is_dir():
            events = profile.view().events
        last = profile.last_compaction()
    except errors.Error as error:
        reason = reason or str(error)
    ended = None if last is None else datetime.fromtimestamp(last.ended_micros / 1e6, timezone.utc)
    return {
        "active": reason is None,
        "reason": reason,
        "hermes_version": _version(),
        "home": str(profile.home),
        "events": events,
        "last_compaction": None if ended is None else ended.isoformat(timespec="seconds"),
        "last_compaction_error": None if last is None else last.error,
    }


def _obstacle() -> str | None:
    """Why a process of Hermes that starts now would not use the log."""
    import hermes_log_start

    from hermes_log.hermes import structure

    try:
        import tools.skill_usage as usage
    except ImportError as error:
        return f"Hermes is not in this environment: {error}"
    enabled = hermes_log_start.is_enabled()
    if enabled is None:
        return "the configuration of Hermes cannot be read"
    if not enabled:
        return "not enabled: hermes plugins enable hermes-log"
    return None if getattr(usage, "__hermes_log__", None) is not None else structure.obstacle(usage)


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-agent")
    except PackageNotFoundError:
        return None


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hermes_log.hermes", description=__doc__)
    arguments(parser)
    args = parser.parse_args()
    if args.hermes_log_command is None:
        parser.print_help()
        return 2
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
