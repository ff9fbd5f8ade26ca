"""Homes, and real processes of Hermes on them. The Python that runs the tests has the package and Hermes 0.19.0."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG = os.environ.get("HERMES_LOG_LONG") == "1"
TIMEOUT = 120

SKILLS = {
    "deploy": "deploy",
    "writing/review": "review",
    "writing/umlaut": "Größe prüfen",
    "tools/jira": "plugin:jira",
}


class Home:
    """A profile's home with skills in it. `hermes` runs code in a process of Hermes, with `u` for `tools.skill_usage`."""

    def __init__(self, path, python_path=()):
        self.path, self.python_path = Path(path), [str(each) for each in python_path]
        self.usage = self.path / "skills" / ".usage.json"
        (self.path / "skills").mkdir(parents=True)
        for folder, name in SKILLS.items():
            self.add_skill(folder, name)
        self.enable()

    def add_skill(self, folder, name):
        skill = self.path / "skills" / folder
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: a test skill\n---\n\nbody\n", encoding="utf-8")

    def enable(self, on=True):
        names = "[hermes-log]" if on else "[]"
        (self.path / "config.yaml").write_text(f"plugins:\n  enabled: {names}\n", encoding="utf-8")

    def environment(self, plugin=True):
        # A stock process has another configuration, as after `hermes plugins disable`, and nothing of the package runs.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHON"))}
        path = os.pathsep.join(self.python_path)
        return {**inherited, "HERMES_HOME": str(self.path), "HOME": str(self.path), "PYTHONUTF8": "1", "PYTHONPATH": path}

    def start(self, code, plugin=True, **options):
        head = "import sys, json, os\n"
        if not plugin:
            head += "sys.meta_path = [f for f in sys.meta_path if getattr(f, '__module__', '') != 'hermes_log_start']\n"
        head += "from tools import skill_usage as u\n"
        head += f"assert hasattr(u, '__hermes_log__') is {plugin}, 'the plugin'\n"
        return subprocess.Popen(
            [sys.executable, "-c", head + code],
            env=self.environment(),
            cwd=self.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="surrogatepass",
            **options,
        )

    def hermes(self, code, plugin=True):
        """Standard output and error of a process that ran the code."""
        return finish(self.start(code, plugin))

    def load(self, plugin=True):
        out, _ = self.hermes("json.dump(u.load_usage(), sys.stdout)", plugin)
        return json.loads(out)

    def counts(self, plugin=True):
        fields = ("use_count", "view_count", "patch_count")
        found = {name: tuple(record.get(field) or 0 for field in fields) for name, record in self.load(plugin).items()}
        return {name: counts for name, counts in found.items() if any(counts)}

    def compact(self):
        from hermes_log import Profile

        done = Profile(self.path).compact()
        assert done.problem is None, done.problem
        return done

    def file(self):
        return json.loads(self.usage.read_text(encoding="utf-8"))


def finish(process, text=None):
    out, err = process.communicate(text, timeout=TIMEOUT)
    assert process.returncode == 0, err
    return out, err


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")
