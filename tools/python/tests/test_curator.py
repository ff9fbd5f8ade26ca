"""The curator of Hermes and its reports, unchanged, on records in the log."""

import pytest

AGE = """
from datetime import datetime, timedelta, timezone
from agent import curator
now = datetime.now(timezone.utc)
def aged(name, days, **more):
    then = (now - timedelta(days=days)).isoformat()
    data = u.load_usage()
    data[name] = {**u._empty_record(), "created_by": "agent", "created_at": then, "use_count": 1, "last_used_at": then, **more}
    u.save_usage(data)
"""


def test_apply_automatic_transitions(home):
    for name in ("young", "old", "ancient", "pinned one", "revived", "viewed"):
        home.add_skill(name, name)
    home.hermes(AGE + """
aged("young", 3); aged("old", 45); aged("ancient", 200); aged("pinned one", 200, pinned=True)
aged("revived", 45, state="stale"); u.bump_use("revived")
aged("viewed", 200); u.bump_view("viewed")
counts = curator.apply_automatic_transitions()
assert (counts["marked_stale"], counts["archived"], counts["reactivated"]) == (1, 1, 1), counts
states = {name: record["state"] for name, record in u.load_usage().items() if record["created_by"] == "agent"}
assert states == {"young": "active", "old": "stale", "ancient": "archived", "pinned one": "active", "revived": "active", "viewed": "active"}, states
assert u.get_record("ancient")["archived_at"] is not None and (u._archive_dir() / "ancient" / "SKILL.md").exists()
assert curator.apply_automatic_transitions()["archived"] == 0
""")
    before = home.load()
    home.compact()
    assert home.load() == home.load(plugin=False) == before


def test_reports(home):
    out = {}
    work = "u.bump_use('deploy'); u.bump_view('deploy'); u.bump_patch('plugin:jira'); u.mark_agent_created('deploy')\n"
    for plugin in (True, False):
        home.enable(plugin)
        text, _ = home.hermes(work + """
def shape(rows):
    return [{field: value for field, value in row.items() if not field.endswith("_at")} for row in rows]
rows = u.usage_report()
assert next(row for row in rows if row["name"] == "deploy")["last_activity_at"] is not None
json.dump([shape(rows), shape(u.agent_created_report()), u.list_agent_created_skill_names()], sys.stdout)
""", plugin)
        out[plugin] = text
        home.hermes("[u.forget(name) for name in list(u.load_usage())]", plugin)
        home.compact()
    assert out[True] == out[False]


def test_archive_and_restore(home):
    home.hermes("""
u.bump_use("deploy"); u.mark_agent_created("deploy")
ok, said = u.archive_skill("deploy")
assert ok, said
assert u.get_record("deploy")["state"] == "archived" and u.list_archived_skill_names() == ["deploy"]
""")
    home.hermes("""
assert u.get_record("deploy")["archived_at"] is not None
ok, said = u.restore_skill("deploy")
assert ok, said
record = u.get_record("deploy")
assert record["state"] == "active" and record["archived_at"] is None and record["use_count"] == 1 and record["created_by"] == "agent"
""")
    home.compact()
    assert home.load(plugin=False)["deploy"]["state"] == "active"


def test_a_name_that_is_used_again_after_it_was_forgotten_starts_anew(home):
    home.hermes(AGE + "aged('deploy', 200); u.forget('deploy'); assert 'deploy' not in u.load_usage()")
    home.hermes(AGE + """
u.mark_agent_created("deploy")
assert u.get_record("deploy")["use_count"] == 0 and u.get_record("deploy")["last_used_at"] is None
assert curator.apply_automatic_transitions()["archived"] == 0
""")


def test_seeding_and_provenance_stay_hermes_own(home):
    (home.path / "skills" / ".bundled_manifest").write_text("review:abc\n")
    home.hermes("""
u._prune_builtins_enabled = lambda: False
u.seed_record_if_missing("review"); u.set_pinned("review", True); u.mark_agent_created("review")
assert "review" not in u.load_usage()
u.bump_use("review")
record = u.load_usage()["review"]
assert record["use_count"] == 1 and record["pinned"] is False and record["created_by"] is None
u.seed_record_if_missing("deploy"); first = u.load_usage()["deploy"]
u.seed_record_if_missing("deploy")
assert u.load_usage()["deploy"] == first and first["use_count"] == 0
u.bump_use(""); u.set_state("deploy", "asleep"); u.forget("nobody"); u.forget("")
assert set(u.load_usage()) == {"review", "deploy"} and u.load_usage()["deploy"] == first
""")


@pytest.mark.parametrize("plugin", [True, False])
def test_each_state_sets_what_stock_sets(home, plugin):
    home.enable(plugin)
    home.hermes("""
for state, archived in [("archived", True), ("stale", True), ("active", False), ("stale", False), ("archived", True), ("active", False)]:
    u.set_state("deploy", state)
    record = u.get_record("deploy")
    assert (record["state"], record["archived_at"] is not None) == (state, archived), record
""", plugin)
