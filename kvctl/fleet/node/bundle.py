"""kvnoded as one archive that python3 runs. The same sources give the same bytes, so its checksum is its identity."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path

from kvctl.fleet.node import roles

MAIN = "import sys\n\nfrom kvctl.fleet.node.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip archive can hold


@functools.lru_cache(maxsize=1)
def zip_bytes() -> bytes:
    """The archive: kvctl.fleet.node, kvctl.fleet.probe, and the roles' code with its parsers."""
    files = {"__main__.py": MAIN.encode(), "kvctl/fleet/__init__.py": b""}
    package = Path(__file__).resolve().parents[2]
    files["kvctl/__init__.py"] = (package / "__init__.py").read_bytes()
    for room in ("node", "probe"):
        for path in sorted((package / "fleet" / room).rglob("*.py")):
            files[f"kvctl/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    modules, probe = roles.sources()
    files.update({"ansible/__init__.py": b"", "ansible/module_utils/__init__.py": b""})
    for path in sorted(modules.glob("kvctl_*.py")):
        files[f"ansible/module_utils/{path.name}"] = path.read_bytes()
    for path in sorted((probe / "tools").rglob("*.py")):
        files[f"ansible/module_utils/{path.relative_to(probe).as_posix()}"] = path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), files[name])
    return buffer.getvalue()
