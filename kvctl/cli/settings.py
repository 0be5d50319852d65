"""Settings of a kvctl command and where each came from: flag > environment > project file > user file > default.

Every command loads this, so it imports nothing heavy.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from kvctl.types.errors import UsageError

T = TypeVar("T")
PROJECT_FILE = "kvctl.toml"
LAB_DIR = "/var/lib/kvctl-lab"
LAB_ORIGIN = "the lab that is up on this machine"

CODES = {
    "KV-CFG-001": "A settings file cannot be read or is not TOML.",
    "KV-CFG-002": "A settings file has a key that kvctl does not know.",
    "KV-CFG-003": "A setting has a value that is not allowed.",
}


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    value: T
    origin: str  # "--timeout", "KVCTL_TIMEOUT", "/etc/x/kvctl.toml:3", "default", or a sentence


@dataclass(frozen=True, slots=True)
class Settings:
    inventory: Setting[Path | None]  # None: there is none anywhere
    state_dir: Setting[Path]
    output: Setting[str]
    color: Setting[str]
    concurrency: Setting[int]  # nodes at once
    timeout: Setting[float]  # seconds for one node
    ssh: Setting[str]  # auto: as the inventory's access.transport says
    controller: Setting[str | None]  # None: a kvctld that runs on this state, or this process
    controller_ca: Setting[Path | None]  # None: the CA in the state directory, or the system's

    def items(self) -> Iterator[tuple[str, Setting[Any]]]:
        for name in KEYS:
            yield name, getattr(self, name)

    def require_inventory(self) -> Path:
        if self.inventory.value is None:
            raise UsageError(
                "KV-INV-001",
                "there is no inventory",
                where=self.inventory.origin,
                fix="run: kvctl init NAME=ADDRESS:ROLE ..., or give --inventory FILE",
            )
        return self.inventory.value


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: how a value of it is read from any source, and what is allowed, in words."""

    parse: Callable[[Any], Any]  # ValueError when the value is not allowed
    allowed: str
    default: Any = None
    is_path: bool = False


def _choice(*names: str) -> Key:
    def parse(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return Key(parse, " | ".join(names), names[0])


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,6}", value):
        raise ValueError
    number = int(value)
    if not 1 <= number <= 512:
        raise ValueError
    return number


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if not math.isfinite(number) or not 0 < number <= 86400:
        raise ValueError
    return number


def _path(value: Any) -> str:
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError
    return text


def _endpoint(value: Any) -> str:
    if not isinstance(value, str) or not (value == "direct" or value.startswith(("unix:/", "https://"))):
        raise ValueError
    return value


KEYS: dict[str, Key] = {
    "inventory": Key(_path, "a path", is_path=True),
    "state_dir": Key(_path, "a path", is_path=True),
    "output": _choice("table", "json", "yaml", "jsonl", "csv"),
    "color": _choice("auto", "always", "never"),
    "concurrency": Key(_whole, "a whole number 1 to 512", 32),
    "timeout": Key(_seconds, "seconds, above 0 and at most 86400", 60.0),
    "ssh": _choice("auto", "paramiko", "system"),
    "controller": Key(_endpoint, "unix:/PATH, https://HOST:PORT or direct"),
    "controller_ca": Key(_path, "a path", is_path=True),
}


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str], cwd: Path) -> Settings:
    """Every setting from the first source that has it.

    `flags` holds what was given on the command line; None there means not given. Relative paths belong to `cwd`, those
    in a file to the file's directory. Raises UsageError KV-CFG-001 to 003.
    """
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - Path.home() may raise
    project, user = _read(cwd / PROJECT_FILE), _read(user_file(environ))
    found = {}
    for name, key in KEYS.items():
        variable = f"KVCTL_{name.upper()}"
        given = flags.get(name)
        if given is not None:
            found[name] = _setting(name, given, f"--{name.replace('_', '-')}", cwd, home)
        elif environ.get(variable):
            found[name] = _setting(name, environ[variable], variable, cwd, home)
        elif name in project:
            found[name] = _setting(name, *project[name], cwd, home)
        elif name in user:
            found[name] = _setting(name, *user[name], user_file(environ).parent, home)
        else:
            found[name] = Setting(key.default, "default")
    if found["inventory"].value is None:
        found["inventory"] = _default_inventory(environ, cwd)
    if found["state_dir"].value is None:
        found["state_dir"] = Setting(_xdg(environ, "XDG_STATE_HOME", ".local/state") / "kvctl", "default")
    return Settings(**found)


def user_file(environ: Mapping[str, str]) -> Path:
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "kvctl" / "config.toml"


def lab_dir(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("KVCTL_LAB_DIR") or LAB_DIR)


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """XDG Base Directory specification: a relative path in the variable is to be ignored."""
    value = environ.get(variable, "")
    if value.startswith("/"):
        return Path(value)
    return Path(environ.get("HOME") or os.path.expanduser("~")) / default  # noqa: PTH111


def _default_inventory(environ: Mapping[str, str], cwd: Path) -> Setting[Path | None]:
    here, lab = cwd / "inventory.yaml", lab_dir(environ) / "inventory.yaml"
    if here.exists():
        return Setting(here, "default")
    # exists() may refuse to look into a directory of root's; a lab that cannot be read is not up for this user.
    if os.access(lab, os.R_OK):
        return Setting(lab, LAB_ORIGIN)
    return Setting(None, f"looked for {here} and {lab}")


def _setting(name: str, value: Any, origin: str, base: Path, home: Path) -> Setting[Any]:
    key = KEYS[name]
    try:
        parsed = key.parse(value)
    except ValueError as error:
        shown = "".join(c if c.isprintable() else "?" for c in str(value)[:60])
        raise UsageError(
            "KV-CFG-003",
            f"{name} cannot be {shown!r}",
            where=origin,
            why=f"allowed: {key.allowed}",
            fix="give one of those",
        ) from error
    if key.is_path:
        parsed = base / (home / parsed[2:] if parsed.startswith("~/") else parsed)
    return Setting(parsed, origin)


def _read(path: Path) -> dict[str, tuple[Any, str]]:
    """Keys of one file with file:line. An absent file has none."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        why, fix = error.strerror or str(error), "make it readable, or move it away"
        raise UsageError("KV-CFG-001", "a settings file cannot be read", where=str(path), why=why, fix=fix) from error
    import tomllib  # most commands run without a settings file

    try:
        text = raw.decode("utf-8")
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        fix = 'write settings as: name = "value"'
        raise UsageError(
            "KV-CFG-001", "a settings file is not TOML", where=str(path), why=str(error), fix=fix
        ) from error
    for name in values:
        if name not in KEYS:
            import difflib

            near = difflib.get_close_matches(name, KEYS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                "KV-CFG-002",
                f"unknown setting {name!r}",
                where=f"{path}:{_line(text, name)}",
                fix=f"{hint}settings are {', '.join(KEYS)}",
            )
    return {name: (value, f"{path}:{_line(text, name)}") for name, value in values.items()}


def _line(text: str, key: str) -> int:
    pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((i for i, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)


def resolve_settings(**flags: Any) -> Settings:
    """Settings of the running command from its options, which must default to None: what was not typed is no source."""
    names = {"fmt": "output", "transport": "ssh"}
    return resolve({names.get(name, name): value for name, value in flags.items()}, os.environ, Path.cwd())


def inventory_path(settings: Settings) -> Path:
    """The inventory to use; says so on stderr when it is the lab's. Raises UsageError KV-INV-001 when there is none."""
    path = settings.require_inventory()
    if settings.inventory.origin == LAB_ORIGIN:
        from kvctl.cli.output import note

        note(f"note: no inventory here; using that of {LAB_ORIGIN}: {path}")
    return path
