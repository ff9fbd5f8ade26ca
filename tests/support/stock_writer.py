#!/usr/bin/env python3
"""Does to skills/.usage.json what a Hermes process without hermes-log does, its weaknesses included.

    stock_writer.py HOME --skill NAME --bumps N [--kind use|view|patch] [--forget NAME] [--sleep-ms M]

Bumps one counter N times, then forgets a skill if asked to, and prints the number of bumps that it has done. Each
change is one read, one rewrite of the whole file beside it and one rename, under an exclusive lock that it waits for
without limit. Where a change fails, Hermes goes on without a word: here it is not counted.
"""

import argparse
import fcntl
import json
import os
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

FIELDS = {
    "use": ("use_count", "last_used_at"),
    "view": ("view_count", "last_viewed_at"),
    "patch": ("patch_count", "last_patched_at"),
}


def now():
    return datetime.now(timezone.utc).isoformat()


def new_record():
    record = {"archived_at": None, "created_at": now(), "created_by": None, "pinned": False, "state": "active"}
    for count, last in FIELDS.values():
        record[count] = 0
        record[last] = None
    return record


def read(path):
    """The records. Like Hermes, it takes a file that it cannot read for an empty one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: record for name, record in found.items() if isinstance(record, dict)}


def write(path, records):
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".usage_", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=2, sort_keys=True, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def change(home, how):
    """Whether the change was made."""
    path = home / "skills" / ".usage.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(".usage.json.lock"), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            records = read(path)
            how(records)
            write(path, records)
        except (OSError, TypeError, ValueError):
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("--skill", required=True)
    parser.add_argument("--bumps", type=int, required=True)
    parser.add_argument("--kind", choices=FIELDS, default="use")
    parser.add_argument("--forget", metavar="NAME")
    parser.add_argument("--sleep-ms", type=float, default=0, help="pause after each bump, without the lock")
    args = parser.parse_args()
    count, last = FIELDS[args.kind]

    def bump(records):
        record = records.setdefault(args.skill, new_record())
        record[count] = int(record.get(count) or 0) + 1
        record[last] = now()

    done = 0
    for _ in range(args.bumps):
        done += change(args.home, bump)
        time.sleep(args.sleep_ms / 1000)
    if args.forget is not None:
        change(args.home, lambda records: records.pop(args.forget, None))
    print(done)


if __name__ == "__main__":
    main()
