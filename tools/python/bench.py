#!/usr/bin/env python3
"""Figures of the Python package beside what users have today, in one run, as the table of the README.

tools/python/bench.py PYTHON    an interpreter that has a release build of the package, hermes-agent 0.19.0 and
                                prometheus_client; `--folder DIR`: where the homes are made; `--quick`: a glance
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKILLS, PROCESSES = 200, 8

# Waits for a line, works, and prints [start, end, latencies' median, their 99th percentile] in seconds.
BUMPS = """
import json, sys, time
from tools import skill_usage as u
assert hasattr(u, "__hermes_log__") is {plugin}
u.load_usage(); u.bump_use("skill-7")
print("ready", flush=True); sys.stdin.readline()
clock, bump, times = time.perf_counter, u.bump_use, []
start = time.time()
for _ in range({count}):
    begin = clock(); bump("skill-7"); times.append(clock() - begin)
end = time.time()
times.sort()
print(json.dumps([start, end, times[len(times) // 2], times[int(len(times) * 0.99)]]))
"""
LOADS = """
import time
from tools import skill_usage as u
assert hasattr(u, "__hermes_log__") is {plugin}
u.load_usage()
def one():
    start = time.perf_counter()
    for _ in range(100): u.load_usage()
    return (time.perf_counter() - start) / 100
print(min(one() for _ in range({rounds})))
"""
EMITS = """
import time
from hermes_log import Profile
log = Profile().emitter("bench")
log.used("skill-7"); log.flush()
def one():
    start = time.perf_counter()
    for _ in range(10_000): log.used("skill-7")
    took = (time.perf_counter() - start) / 10_000
    log.flush(30)
    return took
print(min(one() for _ in range({rounds})))
"""
PROMETHEUS = """
import time
from prometheus_client import Counter
counter = Counter("used", "uses", ["skill"]).labels("skill-7")
def one():
    start = time.perf_counter()
    for _ in range(10_000): counter.inc()
    return (time.perf_counter() - start) / 10_000
print(min(one() for _ in range({rounds})))
"""
IMPORT = "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


class Bench:
    def __init__(self, python, folder, quick):
        self.python, self.folder, self.quick, self.homes = python, folder, quick, 0

    def environment(self, home, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHON"))}
        return {**kept, "HERMES_HOME": str(home), "HOME": str(home), **more}

    def home(self, plugin):
        """A home with the usage of 200 skills, written by stock Hermes."""
        self.homes += 1
        home = Path(self.folder) / f"home-{self.homes}"
        (home / "skills").mkdir(parents=True)
        config = home / "config.yaml"
        config.write_text("plugins:\n  enabled: []\n")
        seed = f"from tools import skill_usage as u; u.save_usage({{f'skill-{{i}}': u._empty_record() for i in range({SKILLS})}})"
        self.run(seed, home)
        config.write_text(f"plugins:\n  enabled: [{'hermes-log' if plugin else ''}]\n")
        return home

    def run(self, code, home, **more):
        done = subprocess.run(
            [self.python, "-c", code], env=self.environment(home, **more), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(done.stderr)
        return done.stdout

    def bumps(self, plugin, processes, count):
        """Bumps a second of all processes together, and one's median and 99th percentile; all of them have to be there."""
        home = self.home(plugin)
        code = BUMPS.format(plugin=plugin, count=count)
        children = [
            subprocess.Popen(
                [self.python, "-c", code], env=self.environment(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(processes)
        ]
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        found = [json.loads(child.communicate()[0]) for child in children]
        total = json.loads(self.run("from tools import skill_usage as u; print(u.get_record('skill-7')['use_count'])", home))
        if total != processes * (count + 1):
            sys.exit(f"{total} bumps counted, not {processes * (count + 1)}")
        wall = max(each[1] for each in found) - min(each[0] for each in found)
        return processes * count / wall, found[0][2], found[0][3]

    def table(self):
        rounds = 5 if self.quick else 30
        ours, theirs = (5_000, 20) if self.quick else (50_000, 150)
        one, one_stock = self.bumps(True, 1, ours), self.bumps(False, 1, theirs)
        many, many_stock = self.bumps(True, PROCESSES, ours // 2), self.bumps(False, PROCESSES, theirs // 3)
        load = float(self.run(LOADS.format(plugin=True, rounds=rounds), self.home(True)))
        load_stock = float(self.run(LOADS.format(plugin=False, rounds=rounds), self.home(False)))
        emit = float(self.run(EMITS.format(rounds=rounds), self.home(False)))
        folder = Path(self.folder) / "prometheus"
        folder.mkdir()
        inc = float(self.run(PROMETHEUS.format(rounds=rounds), folder, PROMETHEUS_MULTIPROC_DIR=str(folder)))
        imports = {
            module: statistics.median(float(self.run(IMPORT.format(module=module), folder)) for _ in range(11))
            for module in ("hermes_log", "json")
        }
        return [
            ("what", "measured", "beside", "ratio"),
            ("---", "---:", "---:", "---:"),
            (f"`bump_use` through the plugin, {PROCESSES} processes", f"{many[0]:,.0f}/s", f"{many_stock[0]:,.0f}/s, stock Hermes 0.19.0, {SKILLS} skills", f"{many[0] / many_stock[0]:,.0f} x"),
            ("`bump_use` through the plugin, 1 process", f"{one[0]:,.0f}/s, p50 {one[1] * 1e6:.1f} us, p99 {one[2] * 1e6:.1f} us", f"{one_stock[0]:,.0f}/s, p50 {one_stock[1] * 1e6:,.0f} us, p99 {one_stock[2] * 1e6:,.0f} us, stock", f"{one[0] / one_stock[0]:,.0f} x"),
            ("`Emitter.used`, one thread", f"{emit * 1e6:.2f} us", f"{inc * 1e6:.2f} us, `prometheus_client` multiprocess `Counter.inc`", f"{inc / emit:.1f} x"),
            (f"`load_usage` through the plugin, {SKILLS} skills, nothing new", f"{load * 1e6:.0f} us", f"{load_stock * 1e6:.0f} us, stock", f"{load_stock / load:.1f} x"),
            ("import of the package", f"{imports['hermes_log'] * 1e3:.1f} ms", f"{imports['json'] * 1e3:.1f} ms, `import json`", f"{(imports['hermes_log'] - imports['json']) * 1e3:+.1f} ms"),
        ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-log-bench-", dir=args.folder) as folder:
        for row in Bench(args.python, folder, args.quick).table():
            print("|", " | ".join(row), "|")
    print(f"\n{os.cpu_count()} cores, {time.monotonic() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
