"""Credentials: what is shown of them, who refreshes them, and that no secret is where it should not be."""

import copy
import io
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback

import pytest

from hermes_log import Profile, RefreshRefused, Secret, errors

LOGIN = {"access_token": "ACCESS-1", "refresh_token": "REFRESH-1", "label": "work", "nested": {"apiKey": "NESTED-1"}}


@pytest.fixture
def profile(tmp_path):
    return Profile(tmp_path)


@pytest.fixture
def auth(profile):
    auth = profile.auth("session")
    assert auth.set("nous", "main", LOGIN) == 1
    return auth


def has_secret(text):
    return any(secret in text for secret in ("ACCESS-", "REFRESH-", "NESTED-", "COOKIE-"))


def test_a_credential_is_what_was_set_and_shows_no_secret(profile, auth):
    assert auth.credential("nous", "other") is None
    credential = profile.auth("cron").credential("nous", "main")
    assert (credential.provider, credential.id, credential.generation) == ("nous", "main", 1)
    hidden = {"access_token": "[redacted]", "refresh_token": "[redacted]", "label": "work", "nested": {"apiKey": "[redacted]"}}
    assert dict(credential.fields) == hidden and credential.reveal() == LOGIN
    with pytest.raises(TypeError):
        credential.fields["label"] = "x"
    assert credential.secret("access_token").reveal() == "ACCESS-1" and credential.secret("label").reveal() == "work"
    with pytest.raises(KeyError):
        credential.secret("absent")
    assert (credential.status, credential.claim, credential.alternates) == (None, None, [])
    assert not (credential.needs_login or credential.is_unknown or credential.is_refreshed)
    assert credential.obtained_micros > 1_600_000_000_000_000
    auth.set("nous", "main", {**LOGIN, "session": "COOKIE-1"}, secrets=["session"])
    assert auth.credential("nous", "main").fields["session"] == "[redacted]"
    assert auth.set("nous", "main", LOGIN) == 3
    assert [(each.provider, each.id) for each in auth.credentials()] == [("nous", "main")]
    auth.remove("nous", "main")
    assert auth.credentials() == []
    with pytest.raises(errors.NotFound):
        auth.remove("nous", "main")


def test_a_secret_is_equal_to_itself_and_goes_nowhere(auth):
    credential = auth.credential("nous", "main")
    secret = credential.secret("access_token")
    refreshed = auth.refresh_with("nous", "main", 1, lambda fields: {"scope": "x"})
    with pytest.raises(errors.RefreshFailed, match="no fields"):
        auth.refresh_with("nous", "main", 2, lambda fields: {"refresh_token": None})
    assert isinstance(secret, Secret)
    assert secret == auth.credential("nous", "main").secret("access_token") != credential.secret("refresh_token")
    assert secret != "ACCESS-1" and not hasattr(secret, "__dict__")
    assert f"{secret} {secret!r} {[secret]} %s" % secret == "[redacted] [redacted] [[redacted]] [redacted]"
    with pytest.raises(TypeError):
        hash(secret)
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    with pytest.raises(TypeError):
        Secret("ACCESS-1")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for what in (secret, credential, refreshed, {"deep": [secret]}):
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(what, protocol)
    for make in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            make(secret)
    with pytest.raises(TypeError):
        pickle.Pickler(io.BytesIO()).dump(credential.fields)


def test_nothing_that_is_printed_holds_a_secret(profile, auth):
    def failing(fields):
        raise OSError(f"the server said: {fields['refresh_token']} is bad, {fields['nested']['apiKey']} too")

    def refusing(fields):
        raise RefreshRefused(f"revoked: {fields['refresh_token']}")

    with pytest.raises(OSError, match="REFRESH-1"):  # its own, as it is
        auth.refresh_with("nous", "main", 1, failing)
    seen = [auth.credential("nous", "main").claim.failure]
    assert seen[0].startswith("OSError: the server said: [redacted] is bad")
    auth.set_status("nous", "main", 1, "exhausted", code=429, message="ACCESS-1 is over its limit")
    with pytest.raises(errors.LoginRequired) as raised:
        auth.refresh_with("nous", "main", 1, refusing)
    seen += ["".join(traceback.format_exception(raised.value)), repr(vars(raised.value)), raised.value.reason]
    assert "revoked: [redacted]" in raised.value.reason
    assert (raised.value.provider, raised.value.credential) == ("nous", "main")
    auth.set("nous", "main", {**LOGIN, "access_token": "ACCESS-2"})
    done = auth.refresh_with("nous", "main", 2, lambda fields: {"access_token": "ACCESS-3"})
    for raising in (
        lambda: auth.set("", "main", LOGIN),
        lambda: auth.set("nous", "x" * 2000, LOGIN),
        lambda: auth.set("nous", "main", {"access_token": {"ACCESS-4"}}),
        lambda: auth.set("nous", "main", {"access_token": "ACCESS-4", "at": float("nan")}),
        lambda: auth.refresh_with("nous", "main", 99, failing),
        lambda: auth.refresh_with("nous", "main", 3, failing, lease=0),
    ):
        with pytest.raises((errors.Error, TypeError, ValueError)) as raised:
            raising()
        seen.append("".join(traceback.format_exception(type(raised.value), raised.value, None)))
    credential = auth.credential("nous", "main")
    seen += [repr(each) for each in (credential, credential.fields, credential.status, credential.claim, done, done.fields, auth)]
    seen += [repr(credential.alternates), json.dumps(dict(credential.fields)), *map(repr, profile.follow("oldest", idle_limit=0))]
    frames = profile.follow("oldest", idle_limit=0)
    seen += [json.dumps(event.as_dict()) for frame in frames for event in frame.events]
    assert len(seen) > 20 and not any(has_secret(text) for text in seen), [text for text in seen if has_secret(text)]


def test_a_refresh_is_made_by_the_callable_and_keeps_what_it_leaves_out(profile, auth):
    def exchange(fields):
        assert fields == LOGIN and type(fields) is dict
        # No lock is held: another thread, and this one, use the same object meanwhile.
        reader = threading.Thread(target=auth.refresh)
        reader.start()
        reader.join(60)
        assert not reader.is_alive()
        claim = auth.credential("nous", "main").claim
        assert claim.is_held and 0 < claim.left <= 30 and claim.holder == f"session {os.getpid()}" and claim.failure is None
        return {"access_token": "ACCESS-2", "expires_in": 3600}

    done = auth.refresh_with("nous", "main", 1, exchange)
    assert (done.generation, done.is_own, done.fields["label"]) == (2, True, "work")
    assert done.reveal() == {**LOGIN, "access_token": "ACCESS-2", "expires_in": 3600}
    credential = auth.credential("nous", "main")
    assert credential.is_refreshed and credential.secret("access_token") == done.secret("access_token")
    again = auth.refresh_with("nous", "main", 1, lambda fields: pytest.fail("called"))  # of an older generation
    assert (again.generation, again.is_own) == (2, False)
    assert auth.wait_for_generation("nous", "main", 1, 0) == 2
    assert auth.wait_for_generation("nous", "main", 2, 0) is None


def test_what_the_callable_raises_comes_out_as_it_is_and_the_next_one_may_try(auth):
    error = KeyError("no network")

    def failing(fields):
        raise error

    with pytest.raises(KeyError) as raised:
        auth.refresh_with("nous", "main", 1, failing)
    assert raised.value is error and auth.credential("nous", "main").claim.failure == "KeyError: 'no network'"
    for interrupt in (KeyboardInterrupt, SystemExit):
        def interrupted(fields):
            raise interrupt  # noqa: B023

        with pytest.raises(interrupt):
            auth.refresh_with("nous", "main", 1, interrupted)
    with pytest.raises(TypeError, match="list"):
        auth.refresh_with("nous", "main", 1, lambda fields: ["ACCESS-2"])
    with pytest.raises(TypeError):
        auth.refresh_with("nous", "main", 1, None)
    assert auth.credential("nous", "main").generation == 1
    assert auth.refresh_with("nous", "main", 1, lambda fields: {"access_token": "ACCESS-2"}).generation == 2


def test_tokens_that_came_back_are_kept_though_a_field_beside_them_is_no_json(auth):
    answer = {"access_token": "ACCESS-2", "refresh_token": "REFRESH-2", "when": object(), "nested": {"apiKey": "[redacted]"}}
    with pytest.raises(TypeError, match="when, nested"):
        auth.refresh_with("nous", "main", 1, lambda fields: answer)
    assert auth.credential("nous", "main").reveal() == {**LOGIN, "access_token": "ACCESS-2", "refresh_token": "REFRESH-2"}


def test_refused_tokens_are_not_tried_again_before_a_login(profile, auth):
    def refusing(fields):
        raise RefreshRefused("invalid_grant")

    with pytest.raises(errors.LoginRequired, match="invalid_grant"):
        auth.refresh_with("nous", "main", 1, refusing)
    with pytest.raises(errors.LoginRequired):
        profile.auth("cron").refresh_with("nous", "main", 1, lambda fields: pytest.fail("called"))
    credential = auth.credential("nous", "main")
    assert credential.needs_login and (credential.status.kind, credential.status.message) == ("login_required", "invalid_grant")
    assert auth.set("nous", "main", {**LOGIN, "access_token": "ACCESS-2"}) == 2
    assert not auth.credential("nous", "main").needs_login


def test_fields_that_were_shown_are_not_taken_for_the_secrets(auth):
    with pytest.raises(errors.Invalid, match="reveal"):
        auth.set("nous", "main", {**auth.credential("nous", "main").fields, "label": "home"})
    assert auth.credential("nous", "main").reveal() == LOGIN
    assert auth.set("nous", "main", {**auth.credential("nous", "main").reveal(), "label": "home"}) == 1
    assert auth.credential("nous", "main").fields["label"] == "home"


def test_status_and_choices_are_there_for_everybody(profile, auth):
    auth.set_status("nous", "main", 1, "exhausted", code=429, reset_micros=1_800_000_000_000_000, message="limit")
    auth.set_active("nous")
    auth.suppress("nous", "env")
    other = profile.auth("gateway")
    status = other.credential("nous", "main").status
    assert (status.kind, status.code, status.reset_micros, status.message) == ("exhausted", 429, 1_800_000_000_000_000, "limit")
    assert other.active_provider == "nous" and other.is_suppressed("nous", "env")
    auth.unsuppress("nous", "env")
    auth.set_active(None)
    assert other.is_suppressed("nous", "env")
    other.refresh()
    assert not other.is_suppressed("nous", "env") and other.active_provider is None and other.gaps == []
    with pytest.raises(errors.Invalid, match="login_required"):
        auth.set_status("nous", "main", 1, "fine")


def test_names_and_fields_with_half_a_surrogate_pair_are_read_back_equal(profile, auth):
    auth.set("\ud800", "\ufdd0", {"access_token": "\udfff", "note": "\ud800"})
    credential = profile.auth("session").credential("\ud800", "\ufdd0")
    assert (credential.provider, credential.id) == ("\ud800", "\ufdd0")
    assert credential.secret("access_token").reveal() == "\udfff" and credential.fields["note"] == "\ud800"


def test_auth_json_is_taken_in_and_written(profile, auth, tmp_path):
    path = tmp_path / "auth.json"
    pool = {"nous": [{"id": "b", "access_token": "ACCESS-7"}]}
    path.write_text(json.dumps({"version": 1, "providers": {"nous": {"api_key": "ACCESS-8"}}, "credential_pool": pool, "x": 1}))
    done = auth.import_file(path)
    assert (done.new, done.updated, done.unchanged, done.old, done.problems) == (2, 0, 0, 0, [])
    assert auth.credential("nous", "@provider").secret("api_key").reveal() == "ACCESS-8"
    auth.refresh_with("nous", "b", 1, lambda fields: {"access_token": "ACCESS-9"})
    assert auth.import_file(path).old == 1
    done = auth.export_file(path)
    assert (done.written, done.unknown, done.set_aside) == (3, [], None)
    written = json.loads(path.read_text())
    assert written["x"] == 1 and {each["id"]: each["access_token"] for each in written["credential_pool"]["nous"]} == {
        "b": "ACCESS-9",
        "main": "ACCESS-1",
    }
    with pytest.raises(errors.Io):
        auth.import_file(tmp_path / "none.json")


def test_a_replaced_secret_is_gone_after_a_scrub(profile, auth):
    auth.set("nous", "main", {"access_token": "ACCESS-2"})

    def on_disk(secret):
        return any(secret.encode() in path.read_bytes() for path in profile.log_folder.iterdir() if path.is_file())

    assert on_disk("REFRESH-1")
    assert profile.compact(scrub=True).problem is None
    assert not on_disk("REFRESH-1") and on_disk("ACCESS-2")


EXCHANGE = """
import os, sys
from hermes_log import Profile
auth = Profile(sys.argv[1]).auth("session")
def exchange(fields):
    descriptor = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{os.getpid()} {fields['refresh_token']}\\n".encode())
    os.close(descriptor)
    return {"access_token": "ACCESS-2", "refresh_token": "REFRESH-2"}
print("ready", flush=True)
sys.stdin.readline()
done = auth.refresh_with("nous", "main", 1, exchange)
print(os.getpid(), done.generation, done.is_own, done.secret("refresh_token").reveal() == "REFRESH-2")
"""


def test_of_eight_processes_one_exchanges_and_all_have_its_tokens(profile, auth, tmp_path):
    calls = tmp_path / "calls"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", EXCHANGE, profile.home, calls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 8
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = {}
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        pid, *outcomes[process.pid] = out.split()
        assert int(pid) == process.pid
    (call,) = calls.read_text().splitlines()
    pid, token = call.split()
    assert token == "REFRESH-1" and outcomes.pop(int(pid)) == ["2", "True", "True"]
    assert list(outcomes.values()) == [["2", "False", "True"]] * 7


def test_threads_refresh_once_too(profile, auth):
    calls, done, together = [], [], threading.Barrier(8)

    def exchange(fields):
        calls.append(fields["refresh_token"])
        return {"access_token": "ACCESS-2", "refresh_token": "REFRESH-2"}

    def work():
        together.wait(60)
        done.append(auth.refresh_with("nous", "main", 1, exchange))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["REFRESH-1"]
    assert [each.generation for each in done] == [2] * 8 and sum(each.is_own for each in done) == 1


def test_who_waits_for_a_refresh_has_a_limit_and_is_told_who_is_at_it(profile, auth):
    began, end = threading.Event(), threading.Event()

    def exchange(fields):
        began.set()
        assert end.wait(60)
        raise OSError("no network, not for REFRESH-1 either")

    def work():
        with pytest.raises(OSError, match="no network"):
            auth.refresh_with("nous", "main", 1, exchange)

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(60)
    other = profile.auth("cron")
    for late in (
        lambda: other.refresh_with("nous", "main", 1, lambda fields: pytest.fail("called"), wait=0.1),
        lambda: other.wait_for_generation("nous", "main", 1, 0.1),
    ):
        with pytest.raises(TimeoutError) as raised:
            late()
        error = raised.value
        assert isinstance(error, errors.RefreshTimeout) and error.waited >= 0.1
        assert (error.provider, error.credential, error.holder) == ("nous", "main", f"session {os.getpid()}")
    threading.Timer(2, end.set).start()  # nobody sees that somebody waits: long enough to have begun to
    with pytest.raises(errors.RefreshFailed, match="OSError: no network") as raised:  # one exchange for all who asked
        other.refresh_with("nous", "main", 1, lambda fields: pytest.fail("called"))
    assert not has_secret(raised.value.reason)
    thread.join()


def test_a_forked_child_reads_and_claims_in_its_own_name(profile):
    profile.auth("session").set("nous", "main", LOGIN)
    auth = profile.auth("session")  # has written nothing yet

    def exchange(fields):
        holder = auth.refresh() or auth.credential("nous", "main").claim.holder
        return {"access_token": "ACCESS-2" if holder == f"session {os.getpid()}" else holder}

    child = os.fork()
    if child == 0:
        try:
            done = auth.refresh_with("nous", "main", 1, exchange)
            auth.set_active("nous")
            os._exit(0 if done.is_own and auth.active_provider == "nous" else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    auth.refresh()
    assert auth.credential("nous", "main").secret("access_token").reveal() == "ACCESS-2"
    auth.set_status("nous", "main", 2, "ok")
    frames = list(profile.follow("oldest", idle_limit=0))
    processes = [frame.process == os.getpid() for frame in frames]
    assert processes == [True, False, False, False, True], "set; claimed, refreshed and chosen by the child; status"


def test_a_process_that_died_in_its_exchange_is_followed_when_its_lease_is_over(profile, auth):
    code = """
import os, signal, sys
from hermes_log import Profile
Profile(sys.argv[1]).auth("session").refresh_with(
    "nous", "main", 1, lambda fields: os.kill(os.getpid(), signal.SIGKILL), lease=float(sys.argv[2])
)
"""
    done = subprocess.run([sys.executable, "-c", code, profile.home, "0.5"], timeout=60)
    assert done.returncode == -9
    done = auth.refresh_with("nous", "main", 1, lambda fields: {"access_token": "ACCESS-2"})
    assert (done.generation, done.is_own) == (2, True)
    died = subprocess.run([sys.executable, "-c", code.replace("1, l", "2, l"), profile.home, "0.5"], timeout=60)
    assert died.returncode == -9
    auth.refresh()
    deadline = time.monotonic() + 60
    while not auth.credential("nous", "main").is_unknown:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert auth.credential("nous", "main").reveal()["access_token"] == "ACCESS-2"
