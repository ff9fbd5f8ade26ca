"""Other versions of Hermes: the modules that PyPI has, one version of each that differs, from their wheels."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import LONG, Home, finish

# 0.13.0 is as 0.14.0, 0.15.2 as 0.15.0 and 0.15.1, 0.18.2 as 0.18.0, 0.18.1 and 0.19.0.
DIFFERENT = ["0.13.0", "0.15.2", "0.16.0", "0.17.0", "0.18.2"]
ALL = ["0.13.0", "0.14.0", "0.15.0", "0.15.1", "0.15.2", "0.16.0", "0.17.0", "0.18.0", "0.18.1", "0.18.2"]


@pytest.fixture(params=ALL if LONG else DIFFERENT)
def versioned(request, tmp_path):
    """A home for a version of Hermes. Its wheel is kept where tools/python/check says."""
    kept = Path(os.environ.get("HERMES_LOG_WHEELS", tmp_path))
    folder = kept / request.param
    if not folder.exists():
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(tmp_path)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, f"hermes-agent=={request.param}"], check=True, timeout=300)
        unpacked = tmp_path / "unpacked"
        with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
            parts = ("tools/", "agent/", "hermes_cli/", "hermes_constants.py", "hermes_logging.py", "utils.py")
            wheel.extractall(unpacked, [name for name in wheel.namelist() if name.startswith(parts)])
        try:
            unpacked.rename(folder)
        except OSError:
            assert folder.exists()  # another worker was quicker
    return Home(tmp_path / "home", [folder])


def test_what_a_version_records_is_what_it_would_have_recorded_without(versioned):
    code = """
assert u.__file__.startswith({folder!r}), u.__file__
(u._skills_dir() / ".bundled_manifest").write_text("review:abc\\n")
if hasattr(u, "_prune_builtins_enabled"): u._prune_builtins_enabled = lambda: False
u.save_usage({{"review": {{**u._empty_record(), "use_count": 1}}}})
for _ in range(3): u.bump_use("deploy")
u.bump_view("Größe prüfen"); u.bump_patch("plugin:jira"); u.bump_use("review")
u.mark_agent_created("deploy"); u.set_pinned("deploy", True); u.set_state("plugin:jira", "archived"); u.set_state("plugin:jira", "active")
u.set_pinned("review", True); u.forget("Größe prüfen")
data = u.load_usage(); data["old"] = {{"use_count": 5}}; u.save_usage(data)
def shape(value):
    if isinstance(value, dict): return {{k: (v is not None) if k.endswith("_at") else shape(v) for k, v in sorted(value.items())}}
    return [shape(v) for v in value] if isinstance(value, list) else value
json.dump(shape([u.load_usage(), u.get_record("deploy"), u.agent_created_report()]), sys.stdout)
""".format(folder=versioned.python_path[0])
    with_plugin, _ = versioned.hermes(code)
    assert "deploy" not in (versioned.usage.read_text() if versioned.usage.exists() else "") or versioned.compact()
    stock = Home(versioned.path.parent / "stock", versioned.python_path)
    without, _ = stock.hermes(code, plugin=False)
    assert with_plugin == without


def test_processes_of_a_version_count_exactly(versioned):
    processes = [versioned.start("for _ in range(300): u.bump_use('deploy')") for _ in range(2)]
    processes += [versioned.start("for _ in range(20): u.bump_use('deploy')", plugin=False)]
    for process in processes:
        finish(process)
    assert versioned.counts()["deploy"][0] == 620
    versioned.compact()
    assert versioned.file()["deploy"]["use_count"] == versioned.counts(plugin=False)["deploy"][0] == 620
