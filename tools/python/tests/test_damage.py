"""Files that make stock Hermes lose records: with the plugin they cost only what is damaged."""

import json
import os

import pytest

from hermes_log import Profile

DAMAGES = {
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "a cut tail": lambda data: data[: data.index(b'"review"')],
    "one extra brace": lambda data: data + b"}",
    "zeros at the end": lambda data: data + bytes(512),
    "a byte of cp1252": lambda data: data.replace(b'"review"', b'"r\xe9view"'),
    "a count that is text": lambda data: data.replace(b'"use_count": 2', b'"use_count": "2"'),
    "a key with half a surrogate pair": lambda data: data.replace(b'"review"', b'"\\ud800"'),
    "pinned as text": lambda data: data.replace(b'"pinned": false', b'"pinned": "false"'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_costs_only_what_it_covers(home, damage):
    home.hermes("u.bump_use('deploy'); u.bump_use('deploy'); u.bump_view('review')", plugin=False)
    home.usage.write_bytes(DAMAGES[damage](home.usage.read_bytes()))
    home.hermes("""
u.bump_use("deploy"); u.set_pinned("plugin:jira", True); u.bump_view("Größe prüfen")
records = u.load_usage()
assert records["deploy"]["use_count"] == 3 and records["Größe prüfen"]["view_count"] == 1
assert records["plugin:jira"]["pinned"] is True and records["deploy"]["pinned"] is False
""")
    home.compact()
    assert home.load(plugin=False)["deploy"]["use_count"] == 3
    assert home.load() == home.load(plugin=False)


@pytest.mark.parametrize("content", [b"[]", bytes(700), b"", b"null", b"{ not json }"])
def test_a_file_without_records_takes_nothing_out_of_the_log(home, content):
    home.hermes("u.bump_use('deploy'); u.bump_use('deploy'); u.bump_view('review')")
    home.compact()
    home.usage.write_bytes(content)
    home.hermes("u.bump_use('deploy'); assert u.load_usage()['deploy']['use_count'] == 3")
    home.compact()
    assert home.load(plugin=False)["deploy"]["use_count"] == 3 and home.load(plugin=False)["review"]["view_count"] == 1


def test_a_file_that_cannot_be_read_is_not_nothing(home):
    home.hermes("u.bump_use('deploy')")
    home.compact()
    home.usage.unlink()
    home.usage.mkdir()  # a folder cannot be read as a file, not even by root
    home.hermes("for _ in range(2): u.bump_use('deploy')\nu.set_pinned('deploy', True); u.set_state('review', 'stale')")
    home.usage.rmdir()
    assert home.counts()["deploy"][0] == 3 and home.load()["deploy"]["pinned"] is True
    assert home.load()["review"]["state"] == "stale"


def test_out_of_file_descriptors_costs_nothing(home):
    home.hermes("""
import resource
u.bump_use("deploy"); u.bump_use("review")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(3): u.bump_use("deploy")
u.load_usage()
[os.close(each) for each in held]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
u.bump_use("deploy")
""")
    assert home.counts() == {"deploy": (5, 0, 0), "review": (1, 0, 0)}


def test_a_log_that_can_no_longer_be_written_leaves_usage_to_the_file(home):
    home.hermes("""
import logging, time
warnings = []
class Seen(logging.Handler):
    def emit(self, record): warnings.append(record.getMessage())
logging.getLogger("hermes_log").addHandler(Seen(logging.WARNING))
u.bump_use("deploy")
os.rename("event-log", "moved"); open("event-log", "w").close()
time.sleep(1.2)  # until the writer looks again whether its folder is the one that the name says
u.bump_use("deploy"); u.bump_use("review"); u.set_pinned("review", True)
assert u.load_usage()["review"]["use_count"] == 1
assert sum("cannot be written" in w for w in warnings) == 1, warnings
""")
    os.remove(home.path / "event-log")
    os.rename(home.path / "moved", home.path / "event-log")
    assert home.counts() == {"deploy": (2, 0, 0), "review": (1, 0, 0)}
    assert home.load()["review"]["pinned"]


def test_records_of_a_log_that_can_no_longer_be_written_are_not_counted_twice(home):
    home.hermes("""
import time
for _ in range(10): u.bump_use("deploy")
data, later = u.load_usage(), u.load_usage()
data["deploy"]["use_count"] += 1
os.rename("event-log", "moved"); open("event-log", "w").close()
time.sleep(1.2)  # until the writer looks again whether its folder is the one that the name says
u.save_usage(data)
u.bump_use("deploy")
u.save_usage(later)
""")
    os.remove(home.path / "event-log")
    os.rename(home.path / "moved", home.path / "event-log")
    # What the log had is not written over the file, which is behind it: the file's own work is the difference.
    assert home.counts() == {"deploy": (11, 0, 0)}


def test_a_symlinked_file_stays_one_and_keeps_its_mode(home, tmp_path):
    target = tmp_path / "elsewhere.json"
    home.hermes("u.bump_use('deploy')", plugin=False)
    target.write_bytes(home.usage.read_bytes())
    target.chmod(0o664)
    home.usage.unlink()
    home.usage.symlink_to(target)
    home.hermes("""
u.bump_use("deploy")
u.save_usage({**u.load_usage(), "old": {"use_count": 5}})
u.set_pinned("deploy", True)
""")
    home.compact()
    assert home.usage.is_symlink() and os.readlink(home.usage) == str(target) and target.stat().st_mode & 0o777 == 0o664
    records = json.loads(target.read_text())
    assert records["deploy"]["use_count"] == 2 and records["deploy"]["pinned"] is True and records["old"]["use_count"] == 5


def test_a_damaged_frame_costs_one_bump(home):
    home.hermes("u.bump_use('deploy')")
    home.compact()
    home.hermes("for _ in range(9): u.bump_use('deploy')")
    segment = sorted(Profile(home.path).log_folder.glob("*.seg"))[-1]
    frames = list(Profile(home.path).follow("oldest", idle_limit=0))
    victim = next(f for f in frames if getattr(f, "position", None) and f"{f.position.segment:020}" == segment.stem)
    data = bytearray(segment.read_bytes())
    data[victim.position.offset + 12] ^= 0xFF
    segment.write_bytes(data)
    assert home.counts()["deploy"][0] == 9
