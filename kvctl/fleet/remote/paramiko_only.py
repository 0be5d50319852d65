"""paramiko without `invoke`, which it loads for a feature of its own that kvctl never uses, at twice its own cost."""

import sys

_loaded = "invoke" in sys.modules
if not _loaded:
    sys.modules["invoke"] = None  # type: ignore[assignment]  # paramiko.config takes the ImportError as "not installed"

import paramiko  # noqa: E402

if not _loaded:
    del sys.modules["invoke"]

__all__ = ["paramiko"]
