"""The modules' code uses the parsers as they are: mypy sees both as the one package that they are on a node."""

import subprocess
import sys
from pathlib import Path

from kvctl.fleet.node import roles


def test_the_modules_code_is_typed(tmp_path: Path) -> None:
    modules, probe = roles.sources()
    package = tmp_path / "kvctl_roles"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tools").symlink_to(probe / "tools")
    for path in modules.glob("kvctl_*.py"):
        (package / path.name).symlink_to(path)
    argv = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "kvctl_roles"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
