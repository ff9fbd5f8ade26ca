"""The plugin in real processes of Hermes 0.19.0: exact totals, every caller, on and off, and out of the way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import LONG, TIMEOUT, finish

from hermes_log import Profile

HERMES = Path(sys.executable).with_name("hermes")


def bumping(home, bumps, plugin=True, name="deploy"):
    """A process that bumps once it is told to, so that all run at once."""
    code = f"print('ready', flush=True); sys.stdin.readline()\nfor _ in range({bumps}): u.bump_use({name!r})"
    process = home.start(code, plugin)
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def run_all(processes):
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finish(process)


def total(home):
    """The uses of `deploy`: by Hermes with the plugin, by the log, and after a compaction in the file and by stock Hermes."""
    seen = [home.counts()["deploy"][0], Profile(home.path).view()["deploy"]["use_count"]]
    home.compact()
    seen += [home.file()["deploy"]["use_count"], home.counts()["deploy"][0], home.counts(plugin=False)["deploy"][0]]
    assert len(set(seen)) == 1, seen
    return seen[0]


def test_two_processes_bump_the_same_skill_ten_thousand_times_each(home):
    run_all([bumping(home, 10_000) for _ in range(2)])
    assert total(home) == 20_000


def test_many_processes_count_exactly(home):
    processes, bumps = (16, 20_000) if LONG else (6, 1_500)
    run_all([bumping(home, bumps) for _ in range(processes)])
    assert total(home) == processes * bumps


def test_half_of_the_processes_are_stock_and_a_compactor_runs(home):
    bumps, stock = (5_000, 300) if LONG else (1_000, 40)
    processes = [bumping(home, bumps) for _ in range(3)] + [bumping(home, stock, plugin=False) for _ in range(3)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    compactions = 0
    while any(process.poll() is None for process in processes):
        home.compact()
        compactions += 1
    for process in processes:
        finish(process)
    assert total(home) == 3 * (bumps + stock)
    assert compactions >= 2, "nothing was raced"


def test_acknowledged_bumps_survive_os_exit_and_a_kill(home):
    home.hermes("for _ in range(100): u.bump_use('deploy')\nos._exit(0)")
    process = home.start("for _ in range(100): u.bump_use('deploy')\nprint('done', flush=True)\nsys.stdin.readline()")
    assert process.stdout.readline() == "done\n"
    process.kill()
    process.wait()
    assert total(home) == 200


def test_a_process_that_is_stopped_holding_the_lock_delays_no_bump(home):
    holder = home.start(
        "with u._usage_file_lock(): print('held', flush=True); sys.stdin.readline()", plugin=False
    )
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGSTOP)
    try:
        start = time.monotonic()
        home.hermes("u.bump_use('deploy'); u.set_pinned('deploy', True); u.bump_use('deploy')")
        assert time.monotonic() - start < 20
    finally:
        holder.send_signal(signal.SIGCONT)
    finish(holder, "\n")
    assert total(home) == 2


def test_forked_children_of_hermes_count(home):
    home.hermes("""
import threading
u.bump_use("deploy")
stop = threading.Event()
def noise():
    while not stop.is_set(): u.bump_view("review")
threads = [threading.Thread(target=noise) for _ in range(3)]
[t.start() for t in threads]
for _ in range(10):
    child = os.fork()
    if child == 0:
        for _ in range(10): u.bump_use("deploy")
        os._exit(0 if u.get_record("deploy")["use_count"] >= 11 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
[t.join() for t in threads]
""")
    assert total(home) == 101


def test_functions_imported_by_name_before_the_plugin_go_through_the_log(home):
    home.enable(False)
    code = """
import sys
from tools.skill_usage import bump_use, load_usage, save_usage, forget, set_pinned, _mutate, get_record
from tools import skill_usage as u
import hermes_log.hermes as plugin
assert plugin.activate(u)
bump_use("deploy"); set_pinned("deploy", True); bump_use("review"); forget("review")
assert list(load_usage()) == ["deploy"] and get_record("deploy")["pinned"] is True
import hermes_log
kinds = [e.kind for f in hermes_log.Profile().follow("oldest", idle_limit=0) for e in getattr(f, "events", ())]
assert [kind for kind in kinds if kind != "external"] == ["seeded", "used", "pinned", "seeded", "used", "forgotten"], kinds
plugin.deactivate(u)
assert not hasattr(u, "__hermes_log__") and load_usage()["deploy"]["use_count"] == 1
bump_use("deploy")
import json; assert json.loads(u._usage_file().read_text())["deploy"]["use_count"] == 2
assert plugin.activate(u) and plugin.activate(u)
bump_use("deploy")
assert load_usage()["deploy"]["use_count"] == 3
"""
    done = subprocess.run([sys.executable, "-c", code], env=home.environment(), capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr


def test_hermes_loads_the_plugin_by_its_entry_point(home):
    home.hermes("""
from hermes_cli import plugins
plugins.discover_plugins()
loaded = plugins.get_plugin_manager()._plugins["hermes-log"]
assert loaded.enabled and loaded.error is None, loaded
assert "hermes-log" in plugins.get_plugin_manager()._cli_commands
u.bump_use("deploy")
""")
    assert total(home) == 1


def test_the_module_can_be_executed_again(home):
    home.hermes("""
import importlib
u.bump_use("deploy")
u = importlib.reload(u)
u.bump_use("deploy")
assert u.load_usage()["deploy"]["use_count"] == 2
""")
    assert total(home) == 2


def hermes_command(home, *args):
    done = subprocess.run([HERMES, *args], env=home.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_enabled_and_disabled_in_turn_the_file_is_complete_each_time(home):
    (home.path / "config.yaml").unlink()
    bumps = 0
    for _ in range(3 if LONG else 1):
        hermes_command(home, "plugins", "enable", "hermes-log")
        home.hermes("for _ in range(50): u.bump_use('deploy')\nu.mark_agent_created('deploy')")
        hermes_command(home, "curator", "pin", "deploy")
        assert "active" in hermes_command(home, "hermes-log", "status")
        hermes_command(home, "plugins", "disable", "hermes-log")
        bumps += 50
        assert home.file()["deploy"]["use_count"] == bumps and home.file()["deploy"]["pinned"] is True
        assert home.counts(plugin=False)["deploy"][0] == bumps
        home.hermes("u.bump_use('deploy'); u.set_pinned('deploy', False)", plugin=False)
        bumps += 1
    hermes_command(home, "plugins", "enable", "hermes-log")
    assert total(home) == bumps


def test_a_process_that_went_on_after_the_plugin_was_disabled_loses_nothing(home):
    process = home.start("u.bump_use('deploy'); print('ready', flush=True); sys.stdin.readline(); u.bump_use('deploy')")
    assert process.stdout.readline() == "ready\n"
    home.compact()
    home.enable(False)
    finish(process, "\n")
    assert home.counts(plugin=False)["deploy"][0] == 1  # nothing of the package runs here
    out = subprocess.run([sys.executable, "-c", "from tools.skill_usage import load_usage; print(load_usage()['deploy']['use_count'])"], env=home.environment(), capture_output=True, text=True, timeout=TIMEOUT)
    assert out.stdout == "2\n", out.stderr


def test_status_says_what_is(home):
    def status():
        done = subprocess.run([sys.executable, "-m", "hermes_log.hermes", "status", "--json"], env=home.environment(), capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    found = status()
    assert (found["active"], found["events"], found["hermes_version"]) == (True, None, "0.19.0")
    assert found["home"] == str(home.path) and found["last_compaction"] is None
    Profile(home.path).writer("session").append("used", "deploy")
    home.compact()
    found = status()
    assert found["events"] >= 1 and found["last_compaction"].startswith("20") and found["last_compaction_error"] is None
    home.enable(False)
    found = status()
    assert not found["active"] and "plugins enable" in found["reason"]


def warnings(home, code, **options):
    """A process of Hermes, with or without the plugin at work: its warnings."""
    text = "import logging, sys, os; logging.basicConfig()\nfrom tools import skill_usage as u\n" + code
    done = subprocess.run([sys.executable, "-c", text], env=home.environment(), capture_output=True, text=True, timeout=TIMEOUT, **options)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "hermes_log" in line or "hermes-log" in line]


PLAIN = "u.bump_use('deploy'); u.bump_use('deploy'); u.set_pinned('deploy', True); assert u.get_record('deploy')['use_count'] == 2"


def test_a_package_that_cannot_load_leaves_hermes_as_it_was_with_one_warning(home, tmp_path):
    broken = tmp_path / "broken" / "hermes_log"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no native code here')")
    home.python_path.append(str(broken.parent))
    found = warnings(home, PLAIN + "\nfrom hermes_cli import plugins; plugins.discover_plugins()")
    assert len(found) == 1 and "no native code here" in found[0], found
    assert home.file()["deploy"]["use_count"] == 2


def test_a_log_that_cannot_be_opened_leaves_hermes_as_it_was_with_one_warning(home):
    (home.path / "event-log").write_text("a file in the place of the folder")
    found = warnings(home, PLAIN)
    assert len(found) == 1 and "cannot be used" in found[0], found
    assert home.file()["deploy"]["use_count"] == 2


def test_a_hermes_that_is_not_known_is_left_alone_with_one_warning(home, tmp_path):
    tools = tmp_path / "other" / "tools"
    tools.mkdir(parents=True)
    (tools / "__init__.py").write_text("")
    (tools / "skill_usage.py").write_text("def load_usage(home): return {'mine': home}\ndef bump_use(name): pass\n")
    home.python_path.append(str(tools.parent))
    found = warnings(home, "assert u.load_usage(3) == {'mine': 3}; assert not hasattr(u, '__hermes_log__')")
    assert len(found) == 1 and "this version's tools.skill_usage" in found[0], found


def test_bumps_wait_while_the_disk_is_full_and_are_not_lost(home):
    # A limit on file sizes is a full disk that any user can make.
    home.hermes("""
import resource, time
u.bump_use("deploy")
segment = next(iter(sorted((u._skills_dir().parent / "event-log").glob("*.seg"))[-1:]))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (segment.stat().st_size, hard))
for _ in range(5): u.bump_use("deploy")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
usage = u.__hermes_log__.usage()
deadline = time.monotonic() + 30
while usage.trouble()[0] and time.monotonic() < deadline:
    try: usage.flush(1)
    except Exception: time.sleep(0.05)
assert usage.trouble() == (0, 0), usage.trouble()
""")
    assert total(home) == 6


def test_other_homes_of_one_process_have_their_own_logs(home, tmp_path):
    other = tmp_path / "home" / "profiles" / "work"
    (other / "skills").mkdir(parents=True)
    home.hermes(f"""
from hermes_constants import set_hermes_home_override, reset_hermes_home_override
u.bump_use("deploy")
token = set_hermes_home_override({str(other)!r})
u.bump_use("deploy"); u.bump_use("deploy")
reset_hermes_home_override(token)
u.bump_use("deploy")
""")
    assert total(home) == 2 and Profile(other).view()["deploy"]["use_count"] == 2


def test_names_with_half_a_surrogate_pair_harm_nobody(home):
    home.hermes(r"""
names = ["odd \ud800", "\udfffx", "plain"]
for count, name in enumerate(names, 1):
    for _ in range(count): u.bump_use(name)
u.set_pinned(names[0], True)
assert [u.load_usage()[name]["use_count"] for name in names] == [1, 2, 3] and u.get_record(names[0])["pinned"] is True
""")
    home.compact()
    home.hermes(r"""
assert u.get_record("odd \ud800")["use_count"] == 1 and u.get_record("\udfffx")["use_count"] == 2
u.forget("\udfffx"); assert "\udfffx" not in u.load_usage()
""")
    home.hermes("u.bump_use('plain')", plugin=False)
    assert home.counts()["plain"][0] == 4 and home.counts()["odd \ud800"][0] == 1


def test_what_is_loaded_is_the_callers_own(home):
    home.hermes("""
u.bump_use("deploy")
def add(record): record["claims"] = [{"text": "a"}]
u._mutate("deploy", add)
one, other = u.load_usage(), u.load_usage()
one["deploy"]["claims"][0]["text"] = "changed"; one["deploy"]["state"] = "stale"; del one["deploy"]["pinned"]; one["new"] = {}
assert other == u.load_usage() and other["deploy"]["claims"] == [{"text": "a"}] and "new" not in other
import copy, pickle
assert copy.deepcopy(other) == dict(other) == json.loads(json.dumps(other)) == pickle.loads(pickle.dumps(other))
""")


def test_mutators_of_others_work_and_their_fields_are_exact_under_races(home):
    code = """
def claim(record):
    record["negative_claims"] = record.get("negative_claims", 0) + 1
    record.setdefault("seen", []).append(os.getpid())
for _ in range(40): u._mutate("deploy", claim)
"""
    home.hermes("u.bump_use('deploy')")
    for process in [home.start(code) for _ in range(3)]:
        finish(process)
    record = home.load()["deploy"]
    assert record["negative_claims"] == 120 == len(record["seen"]) and record["use_count"] == 1


def test_records_with_a_past_and_values_set_back_are_as_they_were_set(home):
    home.hermes("""
past = "2020-01-02T03:04:05.000006+00:00"
data = u.load_usage()
data["old"] = {"use_count": 5, "last_used_at": past, "created_at": past, "extra": [1.50, 12345678901234567890]}
u.save_usage(data)
assert u.load_usage()["old"] == {"use_count": 5, "last_used_at": past, "created_at": past, "extra": [1.5, 12345678901234567890]}
u.bump_use("old")
assert u.load_usage()["old"]["use_count"] == 6
def back(record): record["use_count"], record["last_used_at"] = 2, past
u._mutate("old", back)
assert u.load_usage()["old"]["use_count"] == 2 and u.load_usage()["old"]["last_used_at"] == past
later = "2020-02-02T03:04:05.000006+00:00"
def seen(record): record["last_used_at"] = later
u._mutate("old", seen)
assert u.load_usage()["old"]["use_count"] == 2 and u.load_usage()["old"]["last_used_at"] == later
u.bump_use("old")
assert u.load_usage()["old"]["use_count"] == 3
""")
    before = home.load()
    home.compact()
    assert home.load() == home.load(plugin=False) == before


def test_a_count_that_went_up_at_another_time_than_now_is_as_it_was_set(home):
    home.hermes("""
past = "2020-01-02T03:04:05.000006+00:00"
def used_then(record): record["use_count"], record["last_used_at"] = record["use_count"] + 2, past
def used_now_and_viewed_then(record):
    record["use_count"], record["last_used_at"] = record["use_count"] + 1, u._now_iso()
    record["view_count"], record["last_viewed_at"] = record["view_count"] + 4, past
u.bump_use("deploy"); u.bump_use("deploy"); u.bump_view("deploy")
u._mutate("deploy", used_then)
record = u.load_usage()["deploy"]
assert (record["use_count"], record["last_used_at"], record["view_count"]) == (4, past, 1), record
u._mutate("deploy", used_now_and_viewed_then)
record = u.load_usage()["deploy"]
assert (record["use_count"], record["view_count"], record["last_viewed_at"]) == (5, 5, past), record
assert record["last_used_at"] > past
""")
    before = home.load()
    home.compact()
    assert home.load() == home.load(plugin=False) == before


def test_saving_what_was_loaded_earlier_takes_nothing_from_others(home):
    home.hermes("""
u.bump_use("deploy"); u.bump_use("review")
data = u.load_usage()
import subprocess
subprocess.run([sys.executable, "-c", "from tools.skill_usage import *; [bump_use('deploy') for _ in range(10)]; set_pinned('review', True); bump_use('new')"], check=True)
data["deploy"]["use_count"] += 1
data["review"]["state"] = "stale"
u.save_usage(data)
u.save_usage(data)
found = u.load_usage()
assert found["deploy"]["use_count"] == 12 and found["new"]["use_count"] == 1, found
assert found["review"]["pinned"] is True and found["review"]["state"] == "stale"
""")


def test_a_home_that_was_used_before_comes_along(home):
    home.hermes("""
for _ in range(3): u.bump_use("deploy")
u.mark_agent_created("deploy"); u.bump_view("review")
u._mutate("deploy", lambda record: record.update(claims=5))
""", plugin=False)
    before = home.load(plugin=False)
    assert home.load() == before
    home.hermes("""
def claim(record): record["claims"] += 1
u._mutate("deploy", claim)
assert u.get_record("deploy")["claims"] == 6
""")
    before["deploy"]["claims"] = 6
    home.hermes("u.set_pinned('deploy', True); u.set_state('deploy', 'stale'); u.forget('review')")
    record = home.load()["deploy"]
    assert {**before["deploy"], "pinned": True, "state": "stale"} == record and "review" not in home.load()
    home.compact()
    assert home.load(plugin=False) == {"deploy": record}


def test_an_event_about_a_field_is_newer_than_what_stock_processes_did_before(home):
    home.hermes("u.bump_use('deploy'); u.set_pinned('deploy', False); u.bump_use('review')", plugin=False)
    home.hermes("u.set_pinned('deploy', True); u.forget('review'); assert list(u.load_usage()) == ['deploy']")
    assert home.load()["deploy"]["pinned"] is True
    home.compact()
    assert home.load(plugin=False)["deploy"]["pinned"] is True and "review" not in home.load()


@pytest.mark.skipif(os.getuid() != 0, reason="needs another owner")
def test_owner_of_the_file_is_kept_by_what_no_event_can_say(home):
    home.hermes("u.bump_use('deploy')", plugin=False)
    os.chown(home.usage, 12345, 23456)
    home.hermes("u.save_usage({**u.load_usage(), 'old': {'use_count': 5}})")
    found = home.usage.stat()
    assert (found.st_uid, found.st_gid) == (12345, 23456) and home.load()["old"] == {"use_count": 5}
