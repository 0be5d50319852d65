"""An engine on a node: where it is, or which archive it is in, and what its own Python says of its packages."""

import hashlib
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from kvctl.connector import engineview
from kvctl.controller.serving_spec import HIDDEN, PLAIN, hidden
from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import UnreachableError, UsageError

SECONDS = 60.0
TESTED = ("0.32.", "0.33.")  # versions whose seam the tier was tested with
BLOCK = 4 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """`home`: the directory on the nodes. `archive`: on this machine, what becomes that directory."""

    home: str
    archive: Path | None = None
    sha256: str = ""
    size: int = 0

    @classmethod
    def of(cls, text: str) -> "Source":
        """A file here is an archive; any other absolute path is a directory on the nodes. UsageError KV-DEP-015."""
        path = Path(text)
        if path.is_file():
            digest = sha256(path)
            return cls(f"/opt/kvctl/engine-{digest[:16]}", path.absolute(), digest, path.stat().st_size)
        if not path.is_absolute():
            raise UsageError(
                "KV-DEP-015", f"{text!r} is no engine", why="no such file is here, and on nodes paths begin with /",
                fix="name an archive on this machine, or the engine's directory on the nodes",
            )  # fmt: skip
        if not PLAIN.fullmatch(text) or hidden(text):
            raise UsageError(
                "KV-DEP-015", f"no unit can run an engine from {text!r}",
                why=f"units see nothing below {', '.join(HIDDEN)}, and take neither white space nor any of %$\"'\\",
                fix="put it where every user may read it, below /opt say",
            )  # fmt: skip
        return cls(str(path))


@dataclass(frozen=True, slots=True)
class Seen:
    python: str
    packages: str  # sha256: of all of them
    vllm: str


def sha256(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            whole.update(block)
    return whole.hexdigest()


def look(target: Target, source: Source, pinned: str | None) -> tuple[Seen | None, str]:
    """What the node's engine consists of, and why it cannot serve. (None, "") while an archive is not there."""
    program = Path(engineview.__file__).read_bytes()
    python = shlex.quote(f"{source.home}/bin/python")
    command = ssh.as_root(target, f"test -x {python} || exit 99; cd / && exec {python} -I -B -")
    try:
        with ssh.connect(target, timeout=SECONDS) as session:
            result = session.run(ssh.bounded(command, SECONDS), stdin=program, timeout=SECONDS)
    except UnreachableError as error:
        return None, f"{error.what}: {error.why}"
    if result.rc == 99:
        return None, "" if source.archive else f"{source.home}/bin/python is not there: it has no engine"
    if result.rc:
        return (
            None,
            f"{source.home}/bin/python does not run: {ssh.explain(target, 'ask the engine', result).why[-300:]}",
        )
    try:
        return judged(json.loads(result.out), pinned)
    except (ValueError, KeyError, TypeError):
        said = result.out[:200].decode(errors="replace")
        return None, f"{source.home}/bin/python does not say what its packages are: {said!r}"


def judged(said: dict[str, str | None], pinned: str | None) -> tuple[Seen | None, str]:
    """The same of what it said."""
    missing = [name for name in engineview.NEEDED if not said[name]]
    if missing:
        return None, f"its engine lacks {', '.join(missing)}"
    seen = Seen(str(said["python"]), str(said["packages"]), str(said["vllm"]))
    if not seen.vllm.startswith(TESTED):
        return None, f"vLLM {seen.vllm}: the tier was tested with {' and '.join(f'{v}x' for v in TESTED)}"
    if pinned and seen.packages != pinned:
        return None, f"its engine's packages are {seen.packages}, pinned is {pinned}"
    return seen, ""
