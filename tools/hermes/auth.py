#!/usr/bin/env python3
"""Reads and writes `auth.json` side by side with the real Hermes Agent from PyPI.

    cargo build --release && python3 tools/hermes/auth.py --binary target/release/hermes-log

Needs what check.py needs. The last line is `N passed, N failed`.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from check import PROJECT, TIMEOUT, expect, install, judge, run

# Runs inside Hermes's environment: one JSON list of steps in, one JSON value out.
DRIVER = """
import json, sys
from hermes_cli import auth
result = None
for function, *args in json.load(sys.stdin):
    result = getattr(auth, function)(*args)
json.dump(result, sys.stdout, default=str)
"""
# A stock process in a refresh: it has the lock through its request, and says so.
HOLDER = """
import sys
from hermes_cli import auth
with auth._auth_store_lock():
    print("held", flush=True)
    sys.stdin.readline()
"""
ENTRY = {
    "id": "ab12",
    "label": "wörk",
    "auth_type": "oauth",
    "priority": 0,
    "source": "manual",
    "access_token": "access-1",
    "refresh_token": "refresh-1",
    "last_status": None,
    "request_count": 3,
    "of_a_newer_version": {"x": [1.50, None]},
}


class Home:
    """A profile home, and the two programs that work there."""

    def __init__(self, path, python, binary):
        self.path, self.python, self.binary = Path(path), python, binary
        self.path.mkdir()
        self.auth = self.path / "auth.json"
        self.environment = {**os.environ, "HERMES_HOME": str(self.path), "HOME": str(self.path), "PYTHONUTF8": "1"}

    def hermes(self, *steps):
        done = run([self.python, "-c", DRIVER], input=json.dumps(steps), env=self.environment, cwd=self.path)
        return json.loads(done)

    def log(self, *args, exit_code=0, **options):
        return run([self.binary, "--home", self.path, "auth", *args], exit_code, **options)


def what_is_exported_is_read_by_hermes(home):
    home.log("set", "openrouter", "ab12", "-", input=json.dumps(ENTRY))
    state = {"tokens": {"access_token": "deep", "refresh_token": "deeper"}, "auth_mode": "chatgpt"}
    home.log("set", "openai-codex", "@provider", "-", input=json.dumps(state))
    home.log("export", home.auth)
    store = home.hermes(["_load_auth_store"])
    expect(store["providers"], {"openai-codex": state}, "providers that Hermes reads")
    expect(home.hermes(["read_credential_pool", "openrouter"]), [ENTRY], "the pool that Hermes reads")
    expect(oct(home.auth.stat().st_mode & 0o777), "0o600", "mode")


def what_hermes_has_stored_comes_back_after_a_refresh(home):
    home.hermes(["write_credential_pool", "openrouter", [ENTRY]], ["suppress_credential_source", "nous", "env"])
    before = home.hermes(["_load_auth_store"])
    home.log("import", home.auth)
    home.log("export", home.auth)
    after = home.hermes(["_load_auth_store"])
    before.pop("updated_at"), after.pop("updated_at")
    expect(after, before, "what Hermes reads, with nothing new")

    answer = json.dumps({"access_token": "access-2", "refresh_token": "refresh-2"})
    home.log("refresh", "openrouter", "ab12", "--", "echo", answer)
    home.log("export", home.auth)
    entry = {**ENTRY, "access_token": "access-2", "refresh_token": "refresh-2"}
    expect(home.hermes(["read_credential_pool", "openrouter"]), [entry], "the pool after a refresh")
    expect(home.hermes(["is_source_suppressed", "nous", "env"]), True, "the suppressed source")


def a_stock_process_in_a_refresh_delays_no_reader_and_makes_an_export_wait(home):
    home.log("set", "openrouter", "ab12", "-", input=json.dumps(ENTRY))
    home.log("export", home.auth)
    command = [home.python, "-c", HOLDER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=home.environment, cwd=home.path, **pipes) as holder:
        expect(holder.stdout.readline(), "held\n", "the holder")
        # Reading and changing credentials needs none of Hermes's locks: this would wait for ever else.
        expect(json.loads(home.log("list", "--json"))["credentials"][0]["generation"], 1, "read meanwhile")
        home.log("refresh", "openrouter", "ab12", "--", "echo", '{"access_token": "meanwhile"}')
        written = threading.Event()
        export = threading.Thread(target=lambda: (home.log("export", home.auth), written.set()))
        export.start()
        time.sleep(0.5)
        expect(written.is_set(), False, "written while Hermes has its lock")
        holder.stdin.write("\n")
        holder.stdin.close()
        export.join(TIMEOUT)
    expect(home.hermes(["read_credential_pool", "openrouter"])[0]["access_token"], "meanwhile", "after its release")


CHECKS = [
    what_is_exported_is_read_by_hermes,
    what_hermes_has_stored_comes_back_after_a_refresh,
    a_stock_process_in_a_refresh_delays_no_reader_and_makes_an_export_wait,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--venv", type=Path, default=PROJECT / "target" / "hermes-venv")
    args = parser.parse_args()
    binary, python = args.binary.resolve(strict=True), install(args.venv.absolute())
    titles = [check.__name__.replace("_", " ") for check in CHECKS]
    each = [lambda folder, check=check: check(Home(f"{folder}/home", python, binary)) for check in CHECKS]
    return judge(list(zip(titles, each)))


if __name__ == "__main__":
    sys.exit(main())
