#!/usr/bin/env python3
"""Compares `hermes-log due` with what the real Hermes Agent's curator does, on random homes.

    cargo build --release && python3 tools/hermes/due.py --binary target/release/hermes-log

Each home is made twice. In one, Hermes's `apply_automatic_transitions` runs (one process for all homes, one clock); in the
other, `due` and `due --apply`. What was planned, what was done, the records and the folders must be the same. Prints its
seed; `--seed` repeats it. The last line is `N homes, N transitions, no difference`.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

from check import PROJECT, TIMEOUT, Failed, expect, install, run

# Runs inside Hermes's environment: the time and a list of homes in, for each what it took into account and what it did.
DRIVER = """
import json, os, sys
from datetime import datetime
now, homes = json.load(sys.stdin)
from agent import curator
from cron import jobs
from tools import skill_usage
done = []
for home in homes:
    os.environ["HERMES_HOME"] = home
    known = {
        "prune": skill_usage._prune_builtins_enabled(),
        "days": [curator.get_stale_after_days(), curator.get_archive_after_days()],
        "cron": sorted(jobs.referenced_skill_names()),
        "hub": sorted(skill_usage._read_hub_installed_names()),
        "before": skill_usage.load_usage(),
    }
    known["counts"] = curator.apply_automatic_transitions(now=datetime.fromisoformat(now))
    known["after"] = skill_usage.load_usage()
    done.append(known)
json.dump(done, sys.stdout)
"""

NAMES = ["pdf", "pdf-tools", "plan", "Größe prüfen", "plugin:jira", "a b", "x" * 60, "deploy", "日本語", "review", "git", "git-helpers"]
PLACES = ["", "", "", "writing", "tools", "deep/er", "scripts", "references"]
# Hermes does not look there.
NOT_SKILLS = ["{skill}/references/old", "{skill}/scripts/old", ".hub/quarantine/old", "node_modules/old", ".git/old", "writing/venv/old"]


class Home:
    """A random home. The ages of everything keep an hour away from where the rule changes its mind."""

    def __init__(self, seed, path, now):
        self.random, self.path, self.now = random.Random(seed), path, now
        chance = self.random.random
        self.stale, self.archive = (30, 90) if chance() < 0.7 else (self.random.randint(1, 60), self.random.randint(1, 120))
        self.prune = self.random.choice([None, None, True, False])
        self.bundled, self.hub, self.cron, self.records, self.external = [], {}, [], {}, []
        for name in self.random.sample(NAMES, self.random.randint(1, len(NAMES))):
            self.skill(name)
        self.files()

    def maybe(self, chance):
        return self.random.random() < chance

    def time(self, days=None):
        if days is None:
            days = self.random.choice([0, 1, self.stale, self.archive, 200]) + self.random.uniform(-20, 20)
        days = max(days, 0)
        for limit in (self.stale, self.archive):
            if abs(days - limit) < 1 / 24:
                days = limit + 1 / 12
        when = self.now - timedelta(days=days)
        spelling = self.random.randint(0, 9)
        if spelling == 0:
            return when.replace(tzinfo=None).isoformat()
        if spelling == 1:
            return when.strftime("%Y-%m-%dT%H:%M:%SZ")
        if spelling == 2:
            return when.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat()
        return when.isoformat()

    def record(self):
        record = {
            "created_by": self.random.choice(["agent", "agent", "agent", "agent", "agent", None, "user"]),
            "created_at": self.time(),
            "state": self.random.choice(["active", "active", "active", "stale", "stale", "archived"]),
            "pinned": self.maybe(0.1),
            "archived_at": None,
        }
        for kind, last in [("use", "used"), ("view", "viewed"), ("patch", "patched")]:
            count = self.random.choice([0, 0, 1, 7])
            record[f"{kind}_count"] = count
            # Usually as Hermes writes them together, sometimes as something else did.
            is_known = count > 0 if self.maybe(0.9) else self.maybe(0.5)
            record[f"last_{last}_at"] = self.time() if is_known else None
        if record["created_by"] != "agent" and self.maybe(0.3):
            record["agent_created"] = self.random.choice([True, False])
        for field in list(record):
            if self.maybe(0.03):
                del record[field]  # an old record
        return record

    def skill(self, name):
        plain = name if self.maybe(0.8) else f"folder-{self.random.randint(100, 999)}"
        place = self.random.choice(PLACES)
        folder = self.path / "skills" / place / plain
        if folder.exists():
            return
        folder.mkdir(parents=True)
        front = {0: f"name: {name}", 1: f'name:   "{name}"  ', 2: f"description: x\nname: '{name}'"}[self.random.randint(0, 2)]
        if plain == name and self.maybe(0.2):
            front = "description: no name"
        (folder / "SKILL.md").write_text(f"---\n{front}\n---\n\n# {name}\n", encoding="utf-8")
        if self.maybe(0.15):
            odd = self.path / "skills" / self.random.choice(NOT_SKILLS).format(skill=folder.relative_to(self.path / "skills"))
            if not odd.exists():
                odd.mkdir(parents=True)
                (odd / "SKILL.md").write_text("---\nname: not-a-skill\n---\n")
                self.records["not-a-skill"] = {"created_by": "agent", "created_at": self.time(400)}
        if self.maybe(0.1):  # a link is not entered
            elsewhere = self.path / "elsewhere"
            elsewhere.mkdir(exist_ok=True)
            (elsewhere / "SKILL.md").write_text("---\nname: linked\n---\n")
            if not (self.path / "skills" / "linked").is_symlink():
                (self.path / "skills" / "linked").symlink_to(elsewhere)
            self.records["linked"] = {"created_by": "agent", "created_at": self.time(400)}
        if self.maybe(0.1):
            taken = self.path / "skills" / ".archive" / plain
            taken.mkdir(parents=True)
            (taken / "SKILL.md").write_text(f"---\nname: {name}\n---\nan older one\n")
        if self.maybe(0.85):
            self.records[name] = self.record()
        if self.maybe(0.15):
            self.bundled.append(name)
        elif self.maybe(0.1):
            self.hub[self.random.choice([name, "slug"])] = {"install_path": str(Path(place) / plain)}
        if self.maybe(0.1):
            self.cron.append(self.random.choice([
                {"id": "1", "skills": [name, "other"]},
                {"id": "2", "skill": f"/{name}", "enabled": False},
                {"id": "3", "skill": f" {name} ", "skills": None, "paused": True},
                {"id": "4", "skill": name, "skills": []},  # an empty list wins: it protects nothing
                {"id": "5", "skills": name},
            ]))
        if self.maybe(0.05):
            self.external.append(str(folder.parent) if place else str(folder))

    def files(self):
        skills = self.path / "skills"
        skills.mkdir(parents=True, exist_ok=True)
        (skills / ".usage.json").write_text(json.dumps(self.records, indent=2, sort_keys=True, ensure_ascii=False), encoding="utf-8")
        if self.bundled or self.maybe(0.3):
            (skills / ".bundled_manifest").write_text("".join(f"{n}:0f0f\n" for n in self.bundled) + "\n", encoding="utf-8")
        if self.hub or self.maybe(0.1):
            (skills / ".hub").mkdir(exist_ok=True)
            (skills / ".hub" / "lock.json").write_text(json.dumps({"version": 1, "installed": self.hub or None}), encoding="utf-8")
        if self.cron:
            (self.path / "cron").mkdir()
            text = json.dumps({"jobs": self.cron} if self.maybe(0.8) else self.cron)
            mark = "\ufeff" if self.maybe(0.1) else ""
            (self.path / "cron" / "jobs.json").write_text(mark + text, encoding="utf-8")
        config = {}
        if self.prune is not None:
            config["prune_builtins"] = self.prune
        if (self.stale, self.archive) != (30, 90):
            config |= {"stale_after_days": self.stale, "archive_after_days": self.archive}
        lines = ["model: x", "curator:" if config else "", *(f"  {field}: {json.dumps(value)}" for field, value in config.items())]
        if self.external:
            lines += ["skills:", "  external_dirs:", *(f"    - {json.dumps(each, ensure_ascii=False)}" for each in self.external)]
        if len(lines) > 2:
            (self.path / "config.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def folders(home):
    """Where each SKILL.md is, a stamp in the archive without its digits."""
    skills = home / "skills"
    found = (str(path.parent.relative_to(skills)) for path in skills.rglob("SKILL.md"))
    return sorted(re.sub(r"^(\.archive/[^/]+)-\d{14}(?=/|$)", r"\1-STAMP", each) for each in found)


def transitions(before, after, archived):
    """What Hermes did, by name, from the records before and after."""
    done = {}
    for name, record in after.items():
        was, now = before.get(name, {}).get("state", "active"), record.get("state", "active")
        if name not in before:
            done[name] = "archive" if now == "archived" else "seed"
        elif was != now:
            done[name] = {"stale": "mark stale", "active": "reactivate", "archived": "archive"}[now]
    return done


def compare(home, known, binary):
    """One home: what Hermes did in `hermes`, against `due` in `log`."""
    environment = {name: value for name, value in os.environ.items() if name != "HERMES_HOME"}
    environment["HOME"] = "/nonexistent"

    def log(*args):
        return json.loads(run([binary, "--home", home / "log", *args, "--json"], env=environment))

    wanted = transitions(known["before"], known["after"], home)
    rows = log("due", "--apply")["skills"]
    planned = {each["skill"]: each["due"] for each in rows if each["due"] != "keep"}
    expect(planned, wanted, "the plan, against what Hermes did")
    expect({each["skill"]: each["due"] for each in rows if each["applied"] == "done"}, wanted, "what was applied")
    expect(folders(home / "log"), folders(home / "hermes"), "folders")
    states = lambda records: {name: record.get("state") for name, record in records.items()}
    after = log("show")["skills"]
    expect(states(after), states(known["after"]), "states")
    suppressed = [(home / side / "skills" / ".curator_suppressed") for side in ("hermes", "log")]
    expect(*[path.read_text(encoding="utf-8") if path.exists() else "" for path in suppressed], "suppressed names")
    again = [each for each in log("due")["skills"] if each["due"] != "keep"]
    expect(again, [], "a second plan")
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--venv", type=Path, default=PROJECT / "target" / "hermes-venv")
    parser.add_argument("--homes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    binary, python = args.binary.resolve(strict=True), install(args.venv.absolute())
    now = datetime.now(timezone.utc)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="hermes-due-", dir=memory) as base:
        homes = [Path(base) / str(n) for n in range(args.homes)]
        for n, home in enumerate(homes):
            for side in ("hermes", "log"):  # twice, since links and configured folders are absolute
                Home(args.seed + n, home / side, now)
        os.environ |= {"HERMES_HOME": str(homes[0] / "hermes"), "HOME": base, "PYTHONUTF8": "1"}
        done = subprocess.run(
            [python, "-c", DRIVER], input=json.dumps([now.isoformat(), [str(home / "hermes") for home in homes]]),
            capture_output=True, text=True, encoding="utf-8", timeout=10 * TIMEOUT, cwd=base,
        )
        if done.returncode != 0:
            raise Failed(f"Hermes ended with {done.returncode}: {done.stderr[-2000:]}")
        known = json.loads(done.stdout)
        counts = {}
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(compare, home, each, binary) for home, each in zip(homes, known)]
            for n, job in enumerate(jobs):
                try:
                    for what in job.result().values():
                        counts[what] = counts.get(what, 0) + 1
                except Failed as error:
                    print(f"FAILED  home {n}, seed {args.seed + n} ({homes[n]}): {known[n]}\n{error}")
                    if os.environ.get("KEEP"):
                        shutil.copytree(homes[n], os.environ["KEEP"], symlinks=True, dirs_exist_ok=True)
                    return 1
    # A comparison of nothing proves nothing.
    few = [what for what in ("mark stale", "archive", "reactivate", "seed") if counts.get(what, 0) < args.homes / 20]
    few += [what for what, is_met in {
        "pruning off": any(not each["prune"] for each in known),
        "other limits": any(each["days"] != [30, 90] for each in known),
        "cron jobs": any(each["cron"] for each in known),
        "hub skills": any(each["hub"] for each in known),
    }.items() if not is_met]
    if few:
        print(f"FAILED  too few of: {', '.join(few)} ({counts})")
        return 1
    print(f"{args.homes} homes, {sum(counts.values())} transitions ({counts}), no difference")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, Failed, subprocess.SubprocessError) as error:
        print(f"FAILED  {error}")
        sys.exit(1)
