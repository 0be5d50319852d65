"""What an engine's directory consists of, as JSON: fed to that engine's own Python on its node.

Standard library alone. The digest is over what pip recorded of every package, each file's hash among it.
"""

import hashlib
import importlib.metadata as metadata
import json
import sys

NEEDED = ("vllm", "cryptography", "msgspec")


def view() -> dict[str, object]:
    """Versions (None: not there), and one digest of all packages."""
    found: dict[str, str] = {}
    rows = []
    for one in metadata.distributions():
        name = (one.metadata["Name"] or "").lower()
        found.setdefault(name, one.version)
        record = one.read_text("RECORD") or one.read_text("METADATA") or ""
        rows.append(f"{name} {one.version} {hashlib.sha256(record.encode()).hexdigest()}")
    digest = hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()
    return {
        "python": ".".join(map(str, sys.version_info[:3])), "packages": f"sha256:{digest}",
        **{name: found.get(name) for name in NEEDED},
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(view()))  # noqa: T201
