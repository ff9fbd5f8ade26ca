"""The package by itself: events in, sums out, what is raised and what never is."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from hermes_log import Compacted, Event, Frame, Gap, Position, Profile, errors

PROJECT = Path(__file__).resolve().parents[3]
EVERY_KIND = {
    "used": {"count": 2},
    "viewed": {},
    "patched": {"count": 1},
    "created": {"by": "agent"},
    "seeded": {},
    "state": {"state": "stale"},
    "pinned": {"pinned": True},
    "fields": {"set": {"x": [1, {"y": 2.5}]}, "unset": ["z"]},
    "edited": {},
    "file_written": {"path": "a.txt"},
    "file_removed": {"path": "a.txt"},
    "installed": {"source": "hub"},
    "updated": {"source": "hub"},
    "archived": {},
    "restored": {},
    "deleted": {},
    "forgotten": {},
}


@pytest.fixture
def profile(tmp_path):
    return Profile(tmp_path)


def test_what_is_emitted_is_in_the_view_as_mapping_and_typed(profile):
    before = datetime.now(timezone.utc)
    with profile.emitter("session") as log:
        for _ in range(1000):
            log.used("pdf")
        log.viewed("pdf", 3)
        log.patched("Größe prüfen")
        log.emit("pinned", "pdf", pinned=True)
    view = profile.view()
    assert list(view) == ["Größe prüfen", "pdf"]
    assert view["pdf"]["use_count"] == 1000 and "other" not in view and len(view) == 2
    record = view.skill("pdf")
    assert (record.use_count, record.view_count, record.patch_count, record.activity) == (1000, 3, 0, 1003)
    assert before <= record.last_used_at <= datetime.now(timezone.utc) and record.last_patched_at is None
    assert (record.pinned, record.state, record.created_by, record.archived_at) == (True, "active", None, None)
    assert [record.name for record in view.skills()] == list(view.records()) == list(view)
    assert view.skill("other") is None
    with pytest.raises(KeyError):
        view["other"]


def test_a_view_refreshes_and_waits_for_a_position(profile):
    view, writer = profile.view(), profile.writer("cron")
    position = writer.append("used", "pdf", count=2, durable=True)
    assert "pdf" not in view
    view.wait_for(position, 5)
    assert view["pdf"]["use_count"] == 2 and view.position > position
    assert pickle.loads(pickle.dumps(position)) == position == Position.parse(str(position))
    with pytest.raises(errors.NotReached) as raised:
        view.wait_for(Position(99, 64), 0.05)
    assert raised.value.position == Position(99, 64) and raised.value.waited >= 0.05


def test_every_kind_of_event_is_appended_and_followed(profile):
    writer = profile.writer("session", session="s-1")
    for kind, args in EVERY_KIND.items():
        writer.append(kind, "pdf", **args)
    batch = [Event(kind, "pdf", **args) for kind, args in EVERY_KIND.items()]
    writer.append_batch(batch)
    frames = list(profile.follow("oldest", idle_limit=0))
    assert [event for frame in frames[:-1] for event in frame.events] == batch == frames[-1].events
    assert {(frame.kind, frame.process, frame.session) for frame in frames} == {("session", os.getpid(), "s-1")}
    assert [event.kind for event in batch] == list(EVERY_KIND) and {event.skill for event in batch} == {"pdf"}
    fields = batch[list(EVERY_KIND).index("fields")].as_dict()
    assert fields == {"event": "fields", "skill": "pdf", **EVERY_KIND["fields"]}


@pytest.mark.parametrize(
    ("kind", "skill", "args"),
    [
        ("used", "", {}),
        ("used", "x" * 5000, {}),
        ("used", "pdf", {"count": 0}),
        ("used", "pdf", {"count": -1}),
        ("used", "pdf", {"other": 1}),
        ("used", 7, {}),
        ("slept", "pdf", {}),
        ("external", "pdf", {}),
        ("state", "pdf", {"state": "asleep"}),
        ("fields", "pdf", {"set": {"use_count": 1}}),
        ("fields", "pdf", {"set": {"pinned": "false"}}),
        ("fields", "pdf", {"set": {"x": float("nan")}}),
        ("fields", "pdf", {"set": {"x": object()}}),
    ],
)
def test_what_is_not_allowed_raises_in_the_writer_and_is_counted_by_the_emitter(profile, kind, skill, args):
    with pytest.raises((errors.Invalid, ValueError, TypeError)):
        profile.writer("session").append(kind, skill, **args)
    log = profile.emitter("session")
    log.emit(kind, skill, **args)
    with pytest.raises(errors.Invalid):
        log.flush()
    counters = log.counters()
    assert (counters["refused"], counters["failed"], counters["appended"]) == (1, 1, 0)


def test_telemetry_raises_for_nothing(tmp_path):
    log = Profile(tmp_path / "gone").emitter("session")
    for nonsense in [None, 7, b"x", object(), "\ud800" * 5000, ""]:
        log.used(nonsense)
        log.used("pdf", nonsense)
        log.emit(nonsense, nonsense)
        log.emit("used", nonsense, count=nonsense)
    log.used("pdf")
    assert log.counters()["emitted"] > 0
    with pytest.raises(errors.Error):
        log.flush(0.2)
    (tmp_path / "gone").mkdir()  # so that the end of the emitter has not to wait


def test_a_block_that_cannot_be_flushed_waits_once(tmp_path):
    start = time.monotonic()
    with Profile(tmp_path / "gone").emitter("session") as log:
        log.used("pdf")
    end = time.monotonic()
    del log
    assert time.monotonic() - end < (end - start) / 2  # the block has waited for its limit


def test_a_view_has_nothing_under_what_is_no_name(profile):
    view = profile.view()
    assert 1 not in view and view.get(None) is None


def test_a_profile_is_a_path(tmp_path):
    profile = Profile(tmp_path)
    assert os.fspath(profile) == str(tmp_path) and Path(profile) == tmp_path


def test_an_emitter_keeps_events_until_the_log_can_be_written(tmp_path):
    log = Profile(tmp_path / "later").emitter("session")
    log.used("pdf", 3)
    with pytest.raises(errors.Waiting):
        log.flush(0.1)
    (tmp_path / "later").mkdir()
    log.flush(10)
    assert Profile(tmp_path / "later").view()["pdf"]["use_count"] == 3


def test_the_exceptions_are_those_of_the_enum(profile, tmp_path):
    script = PROJECT / "tools" / "python" / "generate_errors.py"
    spec = importlib.util.spec_from_file_location("generate_errors", script)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    variants = {name for name, _ in generator.variants(generator.SOURCE.read_text(encoding="utf-8"))}
    missing = variants - {name for name in vars(errors) if isinstance(vars(errors)[name], type)}
    assert not missing, "run tools/python/generate_errors.py"
    with pytest.raises(errors.NotFound, match="profile home not found"):
        Profile(tmp_path / "none").writer("session")
    with pytest.raises(LookupError):
        Profile.named("none")
    with pytest.raises(ValueError, match="allowed"):
        Position.parse("nonsense")
    profile.log_folder.mkdir(mode=0o700)
    profile.log_folder.joinpath("compact.lock").mkdir()
    with pytest.raises(OSError) as raised:
        profile.last_compaction()
    assert raised.value.path == str(profile.log_folder / "compact.lock") or Path(raised.value.path).name == "compact.lock"
    assert raised.value.errno == 21 and isinstance(raised.value, errors.Io)


def test_compaction_verification_and_gaps(profile):
    writer = profile.writer("session")
    position = writer.append("used", "pdf")
    writer.append("used", "pdf")
    segment = profile.log_folder / f"{position.segment:020}.seg"
    data = bytearray(segment.read_bytes())
    data[position.offset + 12] ^= 1
    segment.write_bytes(data)
    found = profile.verify()
    assert not found.is_sound and [gap.position for gap in found.gaps] == [position]
    assert any(isinstance(item, Gap) for item in profile.follow("oldest", idle_limit=0))
    view = profile.view()
    assert view["pdf"]["use_count"] == 1 and view.gap_count == 1 and view.gaps[0].reason
    done = profile.compact()
    assert (done.snapshot, len(done.gaps), done.problem) == ("written", 1, None) and done.events >= 1
    assert profile.last_compaction().floor == done.floor
    assert profile.compact().snapshot == "unchanged"
    assert profile.view()["pdf"]["use_count"] == 1


def test_following_resumes_from_a_saved_position_without_loss(profile):
    writer = profile.writer("session")
    for _ in range(5):
        writer.append("used", "pdf")
    follower = profile.follow("oldest")
    first = [next(follower), next(follower)]
    follower.sync()
    saved = str(follower.position)
    profile.compact()
    writer.append("viewed", "pdf")
    rest = [item for item in profile.follow(saved, idle_limit=0.2) if isinstance(item, Frame)]
    kinds = [event.kind for frame in first + rest for event in frame.events]
    assert kinds.count("used") == 5 and kinds[-1] == "viewed"
    assert isinstance(follower.next_batch(), list)


def test_following_yields_compactions(profile):
    profile.writer("session").append("used", "pdf")
    follower = profile.follow()
    done = profile.compact(retain=0)
    deadline = time.monotonic() + 10
    seen = []
    while not any(isinstance(item, Compacted) and item.floor == done.floor for item in seen):
        assert time.monotonic() < deadline, seen
        seen += follower.next_batch(0.2)


def test_a_follower_that_waits_lets_other_threads_run_and_answers_signals(profile):
    follower = profile.follow()
    got = []
    thread = threading.Thread(target=lambda: got.append(next(follower)))
    thread.start()
    profile.writer("session").append("used", "pdf")  # runs while the thread waits in next()
    thread.join(10)
    assert not thread.is_alive() and isinstance(got[0], Frame)

    code = """if True:
        import signal, sys
        from hermes_log import Profile
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
        follower = Profile(sys.argv[1]).follow()
        print("ready", flush=True)
        next(follower)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code, profile.home], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err


ODD = ["half \ud800", "\udfff", "\udc80\ud83d", "\U0001f600 \ud83d", "\ufdd0", "\ufdd0d800", "\ufdd0\ufdd0", "\ufdd0\ud800", "\ufdd0\ufdd0d800"]


def test_names_with_half_a_surrogate_pair_are_read_back_equal_and_apart(profile):
    names = [*ODD, *(name.encode("unicode_escape").decode() for name in ODD), "pdf"]
    assert len(set(names)) == len(names)
    with profile.emitter("session") as log:
        for count, name in enumerate(names, 1):
            log.used(name, count)
    for name in ODD:
        profile.writer("session").append("fields", name, set={"note " + name: ["\udead", {name: name}]})
    for _ in range(2):
        view = profile.view()
        assert {name: record["use_count"] for name, record in view.items()} == {
            name: count for count, name in enumerate(names, 1)
        }
        for name in ODD:
            assert view[name]["note " + name] == ["\udead", {name: name}]
        profile.compact()
    profile.snapshot_path.read_text(encoding="utf-8")  # nobody else's file is harmed
    skills = {event.skill for item in profile.follow("oldest", idle_limit=0) for event in item.events}
    assert skills - {None} == set(names)


def test_an_import_costs_little():
    code = "import time; start = time.perf_counter(); import hermes_log; print(time.perf_counter() - start)"
    times = [float(subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"], capture_output=True, text=True, check=True).stdout) for _ in range(5)]
    assert min(times) < 0.5  # the figure is in the README; here only that nothing large is dragged in
    heavy = "import sys, hermes_log; print({'typing', 'dataclasses', 'inspect', 'argparse', 'logging'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {heavy}"], capture_output=True, text=True, check=True).stdout
    assert out == "set()\n"
