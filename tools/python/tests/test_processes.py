"""Threads, forked and spawned children, interpreters."""

import multiprocessing
import os
import subprocess
import sys
import threading

import pytest

from hermes_log import Profile


def run(code, *args, timeout=120):
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_share_everything(tmp_path):
    profile = Profile(tmp_path)
    log, writer, view = profile.emitter("session"), profile.writer("session"), profile.view()
    seen = []

    def work():
        for _ in range(300):
            log.used("emitted")
            writer.append("used", "appended")
            view.refresh()
            seen.append(view["appended"]["use_count"])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.flush(10)
    view.refresh()
    assert {name: record["use_count"] for name, record in view.items()} == {"emitted": 2400, "appended": 2400}
    assert max(seen) == 2400 or len(seen) == 2400


FORK = """
import os, sys, threading
from hermes_log import Profile
profile = Profile(sys.argv[1])
log, writer, view = profile.emitter("session"), profile.writer("session"), profile.view()
follower = profile.follow("oldest")
usage = profile._usage("cli")
stop = threading.Event()
counts = [0] * 4
def noise(slot):
    while not stop.is_set():
        log.used("parent")
        writer.append("used", "parent")
        view.refresh()
        usage.load()
        counts[slot] += 2
threads = [threading.Thread(target=noise, args=(slot,)) for slot in range(4)]
for thread in threads:
    thread.start()
children = []
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        try:
            for _ in range(20):
                log.used("child")
                writer.append("used", "child")
            view.refresh()
            records, _ = usage.load()
            assert view["child"]["use_count"] >= 20 and records["child"]["use_count"] >= 20
            follower.next_batch(0.1)
            log.flush(20)
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
log.flush(20)
print(sum(counts), sum(code == 0 for code in codes))
"""


def test_forked_while_other_threads_emit_every_child_counts_its_own_exactly(tmp_path):
    forks = 20
    parent, good = map(int, run(FORK, tmp_path, forks).split())
    assert good == forks
    view = Profile(tmp_path).view()
    assert view["child"]["use_count"] == forks * 40
    assert view["parent"]["use_count"] == parent > 0


def emit(home, count):
    with Profile(home).emitter("batch") as log:
        for _ in range(count):
            log.used("pdf")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path, method):
    profile = Profile(tmp_path)
    with profile.emitter("session") as log:
        log.used("pdf")
        context = multiprocessing.get_context(method)
        children = [context.Process(target=emit, args=(str(tmp_path), 500)) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [0, 0, 0]
    assert profile.view()["pdf"]["use_count"] == 1501


def test_what_was_flushed_survives_os_exit_and_a_kill(tmp_path):
    code = """
import os, sys, signal
from hermes_log import Profile
log = Profile(sys.argv[1]).emitter("session")
log.used("pdf", 7)
log.flush()
os._exit(0) if sys.argv[2] == "exit" else os.kill(os.getpid(), signal.SIGKILL)
"""
    for way in ("exit", "kill"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path), way], timeout=60)
    assert Profile(tmp_path).view()["pdf"]["use_count"] == 14


def test_the_end_of_the_interpreter_flushes(tmp_path):
    run("import sys; from hermes_log import Profile; log = Profile(sys.argv[1]).emitter('x'); log.used('pdf', 3)", tmp_path)
    assert Profile(tmp_path).view()["pdf"]["use_count"] == 3


def test_a_sub_interpreter_is_refused_and_the_process_goes_on(tmp_path):
    code = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import hermes_log
one = interpreters.create()
asked = '''
try:
    import hermes_log
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    raise SystemExit("imported")
'''
failed = interpreters.run_string(one, asked) if sys.version_info < (3, 13) else interpreters.exec(one, asked)
assert failed is None, failed
interpreters.destroy(one)
with hermes_log.Profile(sys.argv[1]).emitter("session") as log:
    log.used("pdf")
print(hermes_log.Profile(sys.argv[1]).view()["pdf"]["use_count"])
"""
    assert run(code, tmp_path) == "1\n"


def test_a_sub_interpreter_is_refused_also_where_it_comes_first(tmp_path):
    code = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
one = interpreters.create()
asked = "try: import hermes_log\\nexcept ImportError: pass\\nelse: raise SystemExit(1)"
failed = interpreters.run_string(one, asked) if sys.version_info < (3, 13) else interpreters.exec(one, asked)
assert failed is None, failed
import hermes_log
with hermes_log.Profile(sys.argv[1]).emitter("session") as log:
    log.used("pdf")
print(hermes_log.Profile(sys.argv[1]).view()["pdf"]["use_count"])
"""
    assert run(code, tmp_path) == "1\n"


def test_free_threads_need_no_lock():
    """On an interpreter with a global lock this says nothing; on one without it, the import must not turn it on."""
    code = "import sys, hermes_log; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    import sysconfig

    assert run(code) == f"{not sysconfig.get_config_var('Py_GIL_DISABLED')}\n"


def test_everything_is_as_before_after_os_fork_without_threads(tmp_path):
    profile = Profile(tmp_path)
    writer = profile.writer("session")
    writer.append("used", "pdf")
    child = os.fork()
    if child == 0:
        writer.append("used", "pdf")
        os._exit(0)
    os.waitpid(child, 0)
    writer.append("used", "pdf")
    frames = list(profile.follow("oldest", idle_limit=0))
    assert [frame.process == os.getpid() for frame in frames] == [True, False, True]
