#!/usr/bin/env python3
"""What users would pick instead of hermes-log, as children of the bench.

    others.py json|sqlite HOME           for each line `TIMES bump` on stdin: counts so often, then prints `done`
    others.py json|sqlite HOME --make    makes the file with 200 skills
    others.py json|sqlite HOME --total   prints what was counted
"""

import json
import sqlite3
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import stock_writer  # noqa: E402  (Hermes's own way: lock, read, change, rewrite, fsync, rename)

SKILL = "pdf-forms"
NAMES = [SKILL] + [f"skill-{number:03}" for number in range(199)]


class Json:
    def __init__(self, home):
        self.home = home

    def make(self):
        stock_writer.change(self.home, lambda records: records.update((n, stock_writer.new_record()) for n in NAMES))

    def bump(self):
        def change(records):
            records[SKILL]["use_count"] += 1
            records[SKILL]["last_used_at"] = stock_writer.now()

        assert stock_writer.change(self.home, change)

    def total(self):
        return json.loads((self.home / "skills" / ".usage.json").read_text())[SKILL]["use_count"]


class Sqlite:
    def __init__(self, home):
        self.db = sqlite3.connect(home / "usage.db", timeout=600, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        # As durable as an append at level Process: commits are not synced.
        self.db.execute("PRAGMA synchronous = NORMAL")

    def make(self):
        self.db.execute("CREATE TABLE usage (skill TEXT PRIMARY KEY, uses INTEGER, last_used REAL) WITHOUT ROWID")
        self.db.executemany("INSERT INTO usage VALUES (?, 0, NULL)", [(name,) for name in NAMES])

    def bump(self):
        self.db.execute("UPDATE usage SET uses = uses + 1, last_used = ? WHERE skill = ?", (time.time(), SKILL))

    def total(self):
        return self.db.execute("SELECT uses FROM usage WHERE skill = ?", (SKILL,)).fetchone()[0]


def main():
    way = {"json": Json, "sqlite": Sqlite}[sys.argv[1]](Path(sys.argv[2]))
    if "--make" in sys.argv:
        way.make()
    elif "--total" in sys.argv:
        print(way.total())
    else:
        for line in sys.stdin:
            for _ in range(int(line.split()[0])):
                way.bump()
            print("done", flush=True)


main()
