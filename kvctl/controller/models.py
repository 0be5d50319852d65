"""Models of a site: pinned by the digests of their files, compared later, and a catalogue of what their KV takes.

Whoever has the directory reads it; the controller is told digests and keeps them on record.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any

from kvctl.connector.fingerprint import canonical, from_json
from kvctl.connector.modelfiles import read_model
from kvctl.govern.models import Family, Files, family
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.requests import ModelPin, Nothing

if TYPE_CHECKING:
    from pathlib import Path

    from kvctl.controller.core import Controller, Service
    from kvctl.types.principals import Principal

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LICENCES = ("LICENSE*", "LICENCE*", "COPYING*", "USE_POLICY*")
NO_LICENCE = "none"


def read_files(path: Path) -> Files:
    """The digests of a model's directory; reads every byte of the weights. Errors as in `read_model`."""
    found = read_model(path)
    return Files(found.weights, found.tokenizer, digest(canonical(found.config).encode()), licence(path))


def licence(path: Path) -> str:
    """The digest of the licence's texts in the directory, by name; NO_LICENCE when there is none."""
    texts = sorted({file for pattern in LICENCES for file in path.glob(pattern) if file.is_file()})
    if not texts:
        return NO_LICENCE
    whole = hashlib.sha256()
    for file in texts:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.name} {content}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def fingerprint_of(path: Path, files: Files) -> str:
    """The digest of an engine's fingerprint file, which must be of these files. KV-MOD-003 when it is of others."""
    found = from_json(path.read_bytes(), where=str(path))
    for name in ("weights", "tokenizer"):
        if getattr(found, name) != getattr(files, name):
            raise UsageError(
                "KV-MOD-003", f"the fingerprint has another {name}", where=str(path),
                why=f"{getattr(found, name)}, and the directory {getattr(files, name)}",
            )  # fmt: skip
    return found.digest().hex()


def catalogue() -> tuple[Family, ...]:
    """The families of models.yaml."""
    import yaml

    text = resources.files("kvctl.controller").joinpath("models.yaml").read_text()
    return tuple(family(row) for row in yaml.safe_load(text))


def pin(ctl: Controller, who: Principal, p: ModelPin) -> dict[str, Any]:
    """Put a model's digests on record under a name; a later pin of the name replaces it.

    UsageError KV-MOD-001 for a name that is none, KV-MOD-002 for a digest that is none.
    """
    if not NAME.fullmatch(p.name):
        raise UsageError("KV-MOD-001", f"{p.name[:80]!r} cannot name a model", why=f"a name is {NAME.pattern}")
    for field in ("weights", "tokenizer", "config", "licence"):
        value = getattr(p, field)
        if not DIGEST.fullmatch(value) and (field, value) != ("licence", NO_LICENCE):
            raise UsageError("KV-MOD-002", f"{field} is no digest", where=value[:80], why=f"one is {DIGEST.pattern}")
    files = Files(p.weights, p.tokenizer, p.config, p.licence)
    data = {
        "name": p.name, **asdict(files), "digest": digest(files.digest_text()), "fingerprint": p.fingerprint,
        "engines": list(p.engines),
    }  # fmt: skip
    document = {"schema": "kvctl.model.pin/1", **data}
    if p.dry_run:
        return document | {"would": {"pin": p.name}}
    ctl.books.commit(who, [Event("model.pinned", data)])
    return document


def listed(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    """The newest pin of every name."""
    with ctl.books.state.reading() as db:
        found = db.execute(
            """SELECT arg_max(data, idx), arg_max(strftime(ts, '%Y-%m-%dT%H:%M:%SZ'), idx) FROM events
               WHERE kind = 'model.pinned' GROUP BY data->>'name' ORDER BY data->>'name'"""
        ).fetchall()
    return {"schema": "kvctl.model.ls/1", "models": [{**json.loads(data), "pinned_at": at} for data, at in found]}


SERVICES: dict[str, Service] = {"model.pin": pin, "model.ls": listed}
