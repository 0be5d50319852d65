"""The probe as a zip that a node's own python3 imports from its standard input. Runs on the controller only."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGE = "kvprobe"
_NOT_SHIPPED = ("bundle.py",)
_EPOCH = (1980, 1, 1, 0, 0, 0)

# -I and -S: no site packages and no user's settings. The memory file is gone with the process; where memfd_create is
# missing (an old C library) a file only this user can read takes its place until everything is imported.
_BOOTSTRAP = """
import os,sys
n={size};d=b""
while len(d)<n:
    c=os.read(0,n-len(d))
    if not c:sys.exit("kvctl probe: standard input ended after %d of %d bytes"%(len(d),n))
    d+=c
f=None
try:
    f=os.memfd_create("kvprobe");p="/proc/self/fd/%d"%f
except (AttributeError,OSError):
    import tempfile
    f,p=tempfile.mkstemp(".zip")
while d:d=d[os.write(f,d):]
sys.path.insert(0,p)
from {package} import __main__ as m,{modules}
if not p.startswith("/proc/"):os.unlink(p)
sys.exit(m.main([{arguments}]))
"""


def modules() -> list[Path]:
    """The files that collect, sorted; the parsers below tools/ stay on the controller."""
    here = Path(__file__).parent
    return sorted(path for path in here.glob("*.py") if path.name not in _NOT_SHIPPED)


def zip_bytes() -> bytes:
    """The zip. The same sources give the same bytes, whatever their dates and modes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in modules():
            entry = zipfile.ZipInfo(f"{PACKAGE}/{path.name}", _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def bootstrap_command(size: int, *arguments: str, python: str = "python3") -> str:
    """A shell command that reads `size` bytes of zip from stdin and prints the document.

    `arguments` go to `__main__`; `python` is the interpreter's name on the node.
    """
    from shlex import quote

    names = ",".join(path.stem for path in modules() if not path.stem.startswith("__"))
    code = _BOOTSTRAP.format(size=int(size), package=PACKAGE, modules=names, arguments=",".join(map(repr, arguments)))
    return f"{python} -ISc {quote(code.strip())}"
