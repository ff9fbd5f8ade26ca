#!/usr/bin/env python3
"""Runs hermes-log side by side with the real Hermes Agent from PyPI.

    cargo build --release && python3 tools/hermes/check.py --binary target/release/hermes-log

Needs Python 3.11 or newer and, the first time, the network: Hermes goes into a virtual environment
(`target/hermes-venv`, another with `--venv DIR`). All homes are temporary. The last line is `N passed, N failed`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import venv
from pathlib import Path

HERMES = "hermes-agent==0.19.0"
# All that tools/skill_usage.py, agent/curator.py and hermes_cli/auth.py import from outside; the whole of Hermes is far more.
NEEDED = ["pyyaml", "httpx"]
PROJECT = Path(__file__).resolve().parents[2]
TIMEOUT = 120

# Folder below skills/ -> name in its front matter.
SKILLS = {
    "deploy": "deploy",
    "writing/review": "review",
    "writing/umlaut": "Größe prüfen",
    "tools/jira": "plugin:jira",
}
FIELDS = {"use": "use_count", "view": "view_count", "patch": "patch_count"}

# Runs inside Hermes's environment: one JSON list of steps in, one JSON value out.
DRIVER = """
import json, sys
from tools import skill_usage
result = None
for function, *args in json.load(sys.stdin):
    result = getattr(skill_usage, function)(*args)
json.dump(result, sys.stdout)
"""


class Failed(Exception):
    pass


def expect(found, wanted, what):
    if found != wanted:
        raise Failed(f"{what}:\n  found  {found!r}\n  wanted {wanted!r}")


def run(command, exit_code=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT, **options)
    if done.returncode != exit_code:
        raise Failed(f"{' '.join(map(str, command[:6]))} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout


def install(folder):
    """The Python of a virtual environment that has Hermes."""
    python = folder / "bin" / "python"
    probe = f"from importlib.metadata import version; import httpx, yaml; assert version('hermes-agent') == '{HERMES[14:]}'"
    if not python.exists() or subprocess.run([python, "-c", probe], capture_output=True).returncode != 0:
        print(f"installing {HERMES} into {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--no-deps", HERMES])
        run([*pip, *NEEDED])
    return python


class Home:
    """A profile home with skills in it, and the two programs that work there."""

    def __init__(self, path, python, binary):
        self.path, self.python, self.binary = Path(path), python, binary
        self.usage = self.path / "skills" / ".usage.json"
        for folder, name in SKILLS.items():
            skill = self.path / "skills" / folder
            skill.mkdir(parents=True)
            text = f"---\nname: {name}\ndescription: a test skill\n---\n\n# {name}\n"
            (skill / "SKILL.md").write_text(text, encoding="utf-8")

    def hermes(self, *steps):
        environment = {**os.environ, "HERMES_HOME": str(self.path), "HOME": str(self.path), "PYTHONUTF8": "1"}
        done = run([self.python, "-c", DRIVER], input=json.dumps(steps), env=environment, cwd=self.path)
        return json.loads(done)

    def load_usage(self):
        return self.hermes(["load_usage"])

    def log(self, *args, exit_code=0):
        # Only `--home` says where to work.
        environment = {name: value for name, value in os.environ.items() if name != "HERMES_HOME"}
        return run([self.binary, "--home", self.path, *args], exit_code, env={**environment, "HOME": "/nonexistent"})

    def show(self, exit_code=0):
        return json.loads(self.log("show", "--json", exit_code=exit_code))["skills"]

    def counts(self, records):
        """The counters of each skill that has any."""
        found = {name: {field: record.get(field) or 0 for field in FIELDS.values()} for name, record in records.items()}
        return {name: counts for name, counts in found.items() if any(counts.values())}


def counts(use=0, view=0, patch=0):
    return {"use_count": use, "view_count": view, "patch_count": patch}


def what_hermes_counted_is_shown(home):
    home.hermes(["bump_use", "deploy"], ["bump_use", "deploy"], ["bump_view", "Größe prüfen"], ["bump_patch", "plugin:jira"])
    wanted = {"deploy": counts(use=2), "Größe prüfen": counts(view=1), "plugin:jira": counts(patch=1)}
    expect(home.counts(home.show()), wanted, "counts before anything was written")
    expect(home.counts(home.load_usage()), wanted, "counts that Hermes reads")


def what_was_emitted_is_read_by_hermes(home):
    home.hermes(["bump_use", "deploy"], ["bump_view", "review"], ["mark_agent_created", "review"], ["set_pinned", "review", True])
    for name in ["deploy", "Größe prüfen", "deploy"]:
        home.log("emit", "use", name)
    wanted = {"deploy": counts(use=3), "Größe prüfen": counts(use=1), "review": counts(view=1)}
    expect(home.counts(home.show()), wanted, "counts before compaction")
    home.log("compact")
    expect(home.counts(home.show()), wanted, "counts after compaction")
    expect(home.load_usage(), home.show(), "records that Hermes reads, against those of show")
    record = home.load_usage()["review"]
    expect((record["created_by"], record["pinned"]), ("agent", True), "what Hermes had set")
    one = json.loads(home.log("show", "deploy", "--json"))
    expect((one["name"], one["record"]), ("deploy", home.show()["deploy"]), "show of one skill")


def hermes_goes_on_after_compaction(home):
    home.log("emit", "use", "deploy")
    home.log("compact")
    home.hermes(["bump_use", "deploy"], ["bump_view", "review"])
    home.log("emit", "use", "deploy")
    wanted = {"deploy": counts(use=3), "review": counts(view=1)}
    expect(home.counts(home.show()), wanted, "counts with Hermes's work not yet compacted")
    for _ in range(2):
        home.log("compact")
        expect(home.counts(home.load_usage()), wanted, "counts that Hermes reads")
        expect(home.counts(home.show()), wanted, "counts that are shown")


def a_skill_that_hermes_forgot_is_gone(home):
    home.log("emit", "use", "deploy")
    home.log("emit", "use", "review")
    home.log("compact")
    home.hermes(["forget", "review"])
    home.log("compact")
    expect(home.counts(home.load_usage()), {"deploy": counts(use=1)}, "counts that Hermes reads")


def hermes_reports_what_was_emitted(home):
    home.log("emit", "use", "plugin:jira")
    home.hermes(["bump_view", "plugin:jira"])
    home.log("compact")
    rows = {row["name"]: row for row in home.hermes(["usage_report"])}
    expect(sorted(rows), sorted(SKILLS.values()), "skills in Hermes's report")
    row = rows["plugin:jira"]
    expect(row["activity_count"], 2, "activity in Hermes's report")
    expect(row["last_activity_at"], max(row["last_used_at"], row["last_viewed_at"]), "its time")


def both_write_the_same_bytes(home, other):
    history = [("use", "deploy"), ("view", "Größe prüfen"), ("use", "deploy"), ("patch", "plugin:jira"), ("use", "review")]
    home.hermes(*([f"bump_{kind}", name] for kind, name in history))
    for kind, name in history:
        other.log("emit", kind, name)
    other.log("compact")

    # A time that Python prints has six digits of a fraction, or, once in a million, none.
    time = re.compile(rb'(_at": )"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00"')
    by_hermes, by_log = (time.sub(rb'\1"TIME"', each.usage.read_bytes()) for each in (home, other))
    expect(by_log, by_hermes, "the file of hermes-log, against that of Hermes")
    if b'"TIME"' not in by_hermes:
        raise Failed("no time was recognised")


def fields_of_others_come_back_byte_by_byte(home):
    odd = {
        "text": 'quote " backslash \\ slash / tab \t bell \x07 delete \x7f line \u2028 face \U0001f600',
        "numbers": [0, -1, 2.5, 1e-07, 1e16, 1.7976931348623157e308, 123456789012345678901234567890, -0.0],
        "empty": [{}, [], "", None, True],
        "nested": {"b": {"c": [[1], {"d": {}}]}, "Ä": 1, "a": 2, "": 3},
    }
    home.hermes(["bump_use", "deploy"])
    records = home.load_usage()
    records["fork skill"] = {**records["deploy"], **odd}
    records["old"] = {"use_count": 3}
    home.hermes(["save_usage", records])
    before = home.usage.read_bytes()
    home.log("emit", "use", "deploy")
    home.log("compact")
    after = home.usage.read_bytes()
    again = json.dumps(json.loads(after), indent=2, sort_keys=True, ensure_ascii=False).encode()
    expect(after, again, "the file, against Python's spelling of it")
    cut = re.compile(rb'  "fork skill": \{.*?\n  \}', re.DOTALL)
    expect(cut.search(after).group(), cut.search(before).group(), "the record of a fork")
    expect(home.load_usage()["old"]["use_count"], 3, "the count of an old record")


DAMAGES = {
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "one extra brace": lambda data: data + b"}",
    "zeros at the end": lambda data: data + bytes(512),
    "a cut tail": lambda data: data[: data.index(b'"review"')],
    "a byte of cp1252": lambda data: data.replace(b'"review"', b'"r\xe9view"'),
    "a key with half a surrogate pair": lambda data: data.replace(b'"review"', b'"\\ud800"'),
    "a count that is text": lambda data: data.replace(b'"use_count": 2', b'"use_count": "2"'),
    "garbage in a record": lambda data: data[: data.index(b'"review"') + 20] + b"\xff\x00@@" + data[data.index(b'"review"') + 60 :],
}


def damage_costs_only_what_it_covers(home, damage):
    home.hermes(["bump_use", "deploy"], ["bump_use", "deploy"], ["bump_view", "review"])
    home.usage.write_bytes(DAMAGES[damage](home.usage.read_bytes()))
    home.log("emit", "use", "deploy")
    shown = home.show(exit_code=3)  # done, but something cannot be read
    expect(home.counts(shown).get("deploy"), counts(use=3), "the undamaged record, shown")
    home.log("compact")
    expect(home.load_usage()["deploy"]["use_count"], 3, "the undamaged record, read by Hermes")
    home.hermes(["bump_use", "deploy"])
    expect(home.counts(home.show())["deploy"], counts(use=4), "the next bump of Hermes")


def eight_processes_and_a_compactor_lose_nothing(home, bumps=60, emits=40, workers=4):
    names = ["deploy", "Größe prüfen"]
    problems, compactions, seen = [], 0, {}

    def guarded(work):
        def target():
            try:
                work()
            except Exception as error:  # A thread has nobody else to tell.
                problems.append(error)

        return threading.Thread(target=target)

    def emit():
        for index in range(emits):
            home.log("emit", "use", names[index % 2])

    steps = [["bump_use", names[index % 2]] for index in range(bumps)]
    threads = [guarded(lambda: home.hermes(*steps)) for _ in range(workers)] + [guarded(emit) for _ in range(workers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not problems:
        home.log("compact")
        compactions += 1
        for name, record in home.show().items():
            if record["use_count"] < seen.get(name, 0):
                raise Failed(f"the count of {name} went back from {seen[name]} to {record['use_count']}")
            seen[name] = record["use_count"]
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    total = counts(use=workers * (bumps + emits) // 2)
    wanted = {name: total for name in names}
    expect(home.counts(home.show()), wanted, "counts before the last compaction")
    home.log("compact")
    expect(home.counts(home.show()), wanted, "counts after the last compaction")
    expect(home.counts(home.load_usage()), wanted, "counts that Hermes reads")
    if compactions < 3:
        raise Failed(f"only {compactions} compactions: nothing was raced")


CHECKS = [
    (what_hermes_counted_is_shown, ()),
    (what_was_emitted_is_read_by_hermes, ()),
    (hermes_goes_on_after_compaction, ()),
    (a_skill_that_hermes_forgot_is_gone, ()),
    (hermes_reports_what_was_emitted, ()),
    (both_write_the_same_bytes, (Home,)),
    (fields_of_others_come_back_byte_by_byte, ()),
    *((damage_costs_only_what_it_covers, (damage,)) for damage in DAMAGES),
    (eight_processes_and_a_compactor_lose_nothing, ()),
]


def judge(checks):
    """Runs each check in a folder of its own, prints how it went, and returns the exit code."""
    failed = 0
    for title, check in checks:
        with tempfile.TemporaryDirectory(prefix="hermes-check-") as folder:
            try:
                check(folder)
                print(f"ok      {title}", flush=True)
            except Exception as error:  # Whatever goes wrong, the other checks run.
                failed += 1
                what = error if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
                print(f"FAILED  {title}\n{what}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--venv", type=Path, default=PROJECT / "target" / "hermes-venv")
    args = parser.parse_args()
    try:
        binary = args.binary.resolve(strict=True)
        python = install(args.venv.absolute())
    except (OSError, Failed, subprocess.SubprocessError) as error:
        print(f"FAILED  setup: {error}")
        print("0 passed, 1 failed")
        return 1
    checks = []
    for check, extra in CHECKS:
        title = " ".join([check.__name__.replace("_", " "), *(f"({each})" for each in extra if isinstance(each, str))])

        def one(folder, check=check, extra=extra):
            more = [Home(f"{folder}/other", python, binary) if each is Home else each for each in extra]
            check(Home(f"{folder}/home", python, binary), *more)

        checks.append((title, one))
    return judge(checks)


if __name__ == "__main__":
    sys.exit(main())
