"""Locks of skills: who has one, for how long, and what is done under it."""

import os
import subprocess
import sys
import threading

import pytest

from hermes_log import Profile, errors

CONTENT = "---\nname: {}\ndescription: a test skill\n---\n\nbody\n"


@pytest.fixture
def profile(tmp_path):
    (tmp_path / "skills").mkdir()
    for name in ("pdf", "git"):
        add_skill(tmp_path / "skills", name)
    return Profile(tmp_path)


def add_skill(folder, name):
    (folder / name).mkdir()
    (folder / name / "SKILL.md").write_text(CONTENT.format(name), encoding="utf-8")


def kinds(profile):
    return [event.kind for frame in profile.follow("oldest", idle_limit=0) for event in frame.events]


def is_free(profile, name="pdf"):
    """Asked by another process: this one's own thread would be told that it has a lock."""
    code = """
import sys
from hermes_log import Profile, errors
try:
    with Profile(sys.argv[1]).skill_lock(sys.argv[2], 0):
        print("free")
except errors.LockTimeout:
    print("held")
"""
    done = subprocess.run([sys.executable, "-c", code, profile.home, name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout == "free\n"


def test_files_change_under_the_lock_and_the_log_says_so(profile):
    with profile.skill_lock("pdf") as lock:
        folder = profile.home / "skills" / "pdf"
        assert (lock.name, lock.folder, repr(lock)) == ("pdf", folder, "SkillLock('pdf')")
        lock.write_file("references/tables.md", b"\x00\xff")
        lock.edit(CONTENT.format("pdf") + "größer\n")
        assert (folder / "references" / "tables.md").read_bytes() == b"\x00\xff"
        assert (folder / "SKILL.md").read_text(encoding="utf-8").endswith("größer\n")
        lock.remove_file("references/tables.md")
        with pytest.raises(errors.NotFound):
            lock.remove_file("references/tables.md")
        with pytest.raises(errors.Invalid):
            lock.edit(CONTENT.format("other"))
        with pytest.raises(errors.Invalid):
            lock.write_file("../git/SKILL.md", "x")
    assert kinds(profile) == ["file_written", "edited", "file_removed"]


def test_skills_come_and_go_under_their_locks(profile, tmp_path):
    skills, folder = profile.skills("session"), profile.home / "skills"
    assert skills.list() == [("git", folder / "git"), ("pdf", folder / "pdf")]
    with profile.skill_lock("new") as lock:
        assert lock.folder is None
        with pytest.raises(errors.NotFound):
            lock.edit("x")
        assert lock.create(CONTENT.format("new"), "tools", by="agent") == folder / "tools" / "new" == skills.find("new")
        with pytest.raises(errors.Refused, match="used up"):
            lock.write_file("a.txt", "x")
        with profile.skill_lock("new") as again:  # it was released with the change
            again.write_file("a.txt", "x")
    with profile.skill_lock("pdf") as lock:
        archived = lock.archive()
    assert skills.archived() == [("pdf", archived)] and skills.find("pdf") is None
    assert skills.restore("pdf") == folder / "pdf"
    (tmp_path / "hub").mkdir()
    add_skill(tmp_path / "hub", "hubbed")
    with profile.skill_lock("hubbed") as lock:
        lock.install(tmp_path / "hub" / "hubbed", source="hub")
    (tmp_path / "hub" / "hubbed" / "more.txt").write_text("x", encoding="utf-8")
    with profile.skill_lock("hubbed") as lock:
        lock.update(tmp_path / "hub" / "hubbed", source="hub")
    assert (folder / "hubbed" / "more.txt").exists()
    with profile.skill_lock("git") as lock:
        lock.delete()
    assert [name for name, _ in skills.list()] == ["hubbed", "new", "pdf"]
    expected = ["created", "file_written", "archived", "restored", "installed", "updated", "deleted"]
    assert kinds(profile) == expected
    with pytest.raises(errors.NotFound):
        skills.restore("git")


def test_what_the_library_leaves_alone_is_refused_with_the_reason(profile):
    profile.writer("session").append("pinned", "pdf", pinned=True)
    with pytest.raises(errors.Refused) as raised, profile.skill_lock("pdf") as lock:
        lock.delete()
    assert raised.value.skill == "pdf" and "pinned" in raised.value.why
    with pytest.raises(errors.Refused), profile.skill_lock("git", kind="review") as lock:
        lock.delete()
    with pytest.raises(errors.Refused), profile.skill_lock("git") as lock:
        lock.create(CONTENT.format("git"), by="user")
    assert is_free(profile) and is_free(profile, "git")


def test_a_block_releases_also_when_it_raises(profile):
    with pytest.raises(KeyError, match="inside"), profile.skill_lock("pdf") as lock:
        assert not is_free(profile)
        raise KeyError("inside")
    assert is_free(profile)
    with pytest.raises(errors.Refused, match="not held"):
        lock.write_file("a.txt", "x")
    with lock:  # it can be entered again, by one at a time
        lock.write_file("a.txt", "x")
        with pytest.raises(errors.Refused, match="held already"), lock:
            pass
        assert not is_free(profile)
    assert is_free(profile)


def test_a_lock_that_is_forgotten_is_released(profile):
    profile.skill_lock("pdf").__enter__()
    assert is_free(profile)


def test_a_timeout_names_the_holder(profile):
    code = """
import sys
from hermes_log import Profile
with Profile(sys.argv[1]).skill_lock("pdf"):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, profile.home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(errors.LockTimeout) as raised, profile.skill_lock("pdf", limit=0.2):
        pass
    error = raised.value
    assert str(holder.pid) in error.holder and error.waited >= 0.2
    assert str(error.path) == str(profile.home / "skills" / "pdf")
    with profile.skill_lock("git", 0):
        pass  # another skill is free
    holder.kill()
    holder.wait()
    with profile.skill_lock("pdf"):
        pass  # and a dead holder's as well


def test_two_processes_never_have_one_skill_at_the_same_time(profile):
    code = """
import sys
from hermes_log import Profile
profile = Profile(sys.argv[1])
for _ in range(25):
    with profile.skill_lock("pdf") as lock:
        path = lock.folder / "count.txt"
        count = int(path.read_text()) if path.exists() else 0
        lock.write_file("count.txt", str(count + 1))
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, profile.home], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert (profile.home / "skills" / "pdf" / "count.txt").read_text() == "50"
    assert kinds(profile) == ["file_written"] * 50


def test_several_are_entered_together_and_in_any_order(profile):
    code = """
import sys
from hermes_log import Profile
profile = Profile(sys.argv[1])
for _ in range(25):
    with profile.skill_locks(sys.argv[2:]) as locks:
        for lock in locks:
            lock.write_file("last.txt", lock.name)
"""
    command = [sys.executable, "-c", code, profile.home]
    processes = [subprocess.Popen([*command, *names], stderr=subprocess.PIPE, text=True) for names in [("pdf", "git"), ("git", "pdf")]]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    with profile.skill_locks(["pdf", "absent", "git"]) as locks:
        assert [lock.name for lock in locks] == ["pdf", "absent", "git"] and locks[1].folder is None
        assert not is_free(profile) and not is_free(profile, "git")
        with pytest.raises(errors.Invalid, match="one at a time"), profile.skill_lock("other", 0):
            pass
    assert is_free(profile) and is_free(profile, "git")
    for names in [[], [""], ["pdf", "pdf"]]:
        with pytest.raises(errors.Invalid), profile.skill_locks(names):
            pass


def test_another_thread_neither_uses_nor_releases_it(profile):
    outcome = []

    def other():
        for use in (
            lambda: lock.write_file("a.txt", "x"),
            lambda: lock.folder,
            lambda: lock.delete(),
            lambda: lock.__enter__(),
            lambda: lock.__exit__(None, None, None),
        ):
            try:
                use()
            except BaseException as error:
                outcome.append(type(error))
        try:
            with profile.skill_lock("pdf", 0):
                outcome.append("entered")
        except errors.LockTimeout as error:
            outcome.append(str(os.getpid()) in error.holder)

    with profile.skill_lock("pdf") as lock:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert outcome == [errors.Refused] * 5 + [True]
        lock.write_file("b.txt", "x")
        assert not is_free(profile)
    assert kinds(profile) == ["file_written"]

    # Nor does it end with the last reference, where that is another thread's; it ends with its own.
    ready, go, kept = threading.Event(), threading.Event(), []

    def owner():
        kept.append(profile.skill_lock("pdf").__enter__())
        ready.set()
        go.wait(60)

    thread = threading.Thread(target=owner)
    thread.start()
    assert ready.wait(60)
    kept.clear()
    assert not is_free(profile)
    go.set()
    thread.join()
    assert is_free(profile)


def test_a_wait_for_a_lock_lets_other_threads_run(profile):
    entered = threading.Event()

    def other():
        with profile.skill_lock("pdf"):
            entered.set()

    with profile.skill_lock("pdf") as lock:
        thread = threading.Thread(target=other)
        thread.start()
        for count in range(20):
            lock.write_file("a.txt", str(count))  # would never come, if the other one waited with the GIL
        assert not entered.is_set()
    assert entered.wait(60)
    thread.join()


FORK = """
import os, sys
from hermes_log import Profile, errors
profile = Profile(sys.argv[1])
with profile.skill_lock("pdf") as lock:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            lock.write_file("child.txt", "x")
        except errors.Refused:
            try:
                with profile.skill_lock("pdf", 0):
                    pass
            except errors.LockTimeout:
                with profile.skill_lock("git") as own:
                    own.write_file("child.txt", "x")
                code = 40
    else:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        lock.write_file("parent.txt", "x")
        print(code, flush=True)
        sys.stdin.readline()
if child == 0:
    (sys.exit if sys.argv[2] == "exit" else os._exit)(code)  # it has left the block
"""


@pytest.mark.parametrize("way", ["exit", "_exit"])
def test_a_forked_child_neither_holds_nor_releases(profile, way):
    process = subprocess.Popen(
        [sys.executable, "-c", FORK, profile.home, way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "40\n", process.communicate("\n")[1]
    assert not is_free(profile), "the child has left its copy of the block, and the lock stays the parent's"
    _, err = process.communicate("\n", timeout=60)
    assert process.returncode == 0, err
    assert is_free(profile)
    assert not (profile.home / "skills" / "pdf" / "child.txt").exists()
