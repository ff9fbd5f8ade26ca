"""Where the plugin of hermes-log for Hermes Agent begins. Plain Python, and cheap: it is imported by every start of the
interpreter (`hermes-log.pth`).

Hermes loads its plugins only in processes that run an agent. Others work on `.usage.json` as well: `hermes curator`, for
one. So the plugin does not wait to be loaded. When `tools.skill_usage` has been imported, it is asked for by the user's
configuration, as Hermes reads it: enabled, and its storage goes through the log; not enabled, and a log that is there
hands back to `.usage.json` what it has.
"""

import sys

NAME = "hermes-log"
USAGE = "tools.skill_usage"
PLUGINS = "hermes_cli.plugins_cmd"

_warned = False


def warn(reason):
    """Says once a process why the plugin is not at work."""
    global _warned
    if not _warned:
        _warned = True
        import logging

        text = "hermes-log is not active, usage is recorded in .usage.json alone: %s"
        logging.getLogger("hermes_log").warning(text, reason)


def register(ctx):
    """Called by Hermes when it loads its plugins."""
    try:
        from hermes_log import hermes
    except Exception as error:
        return warn(error)
    hermes.register(ctx)


def is_enabled():
    """Whether the user's configuration asks for the plugin. None: it cannot be read yet."""
    try:
        from hermes_cli.config import load_config
        from utils import env_var_enabled

        if env_var_enabled("HERMES_SAFE_MODE"):
            return False
        plugins = load_config().get("plugins") or {}
        return NAME in (plugins.get("enabled") or ()) and NAME not in (plugins.get("disabled") or ())
    except Exception:
        return None


def _is_mentioned():
    """A cheap question first: only a configuration that names the plugin, or a log, is worth a closer look."""
    try:
        from hermes_constants import get_hermes_home

        home = get_hermes_home()
        if (home / "event-log").is_dir():
            return True
        return NAME in (home / "config.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _imported(module):
    """A module that is watched has been imported, or imported again."""
    if module.__name__ == USAGE:
        if not _is_mentioned():
            return
        enabled = is_enabled()
        if enabled is None:
            return  # when Hermes loads its plugins, then
        try:
            from hermes_log import hermes
        except Exception as error:
            return warn(error) if enabled else None
        hermes.activate(module) if enabled else hermes.hand_back()
    else:
        # `hermes plugins disable hermes-log`: what is left at its end has to be complete.
        import atexit

        atexit.register(_at_end)


def _at_end():
    if _is_mentioned() and is_enabled() is False:
        from hermes_log import hermes

        hermes.hand_back()


class _Loader:
    """A loader for one module; the module itself never sees it."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        try:
            _imported(module)
        except Exception as error:  # whatever goes wrong here, Hermes runs as it did
            warn(error)


class _Watch:
    """Finds nothing itself; adds a look at two modules of Hermes after they were executed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != USAGE and name != PLUGINS:
            return None
        for finder in sys.meta_path:
            find = None if finder is _Watch else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


if _Watch not in sys.meta_path:
    sys.meta_path.insert(0, _Watch)
