"""A model's directory on this machine, read here: the controller is only told digests."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def digests(path: Path, fingerprint: Path | None = None) -> dict[str, Any]:
    """What ModelPin takes of a directory and of its engine's fingerprint file."""
    from kvctl.controller.models import fingerprint_of, read_files

    files = read_files(path)
    return {**asdict(files), "fingerprint": fingerprint_of(fingerprint, files) if fingerprint else None}


def compare(path: Path, pinned: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{"field", "pinned", "found"} of each field in which the directory differs from a row of model.ls."""
    from kvctl.controller.models import read_files
    from kvctl.govern.models import Files, differences

    kept = Files(pinned["weights"], pinned["tokenizer"], pinned["config"], pinned["licence"])
    return [asdict(one) for one in differences(kept, read_files(path))]


def families(kv_dtype: str) -> list[dict[str, Any]]:
    """The catalogue, with the bytes that a token's KV takes in that type."""
    from kvctl.controller.models import catalogue

    return [{**asdict(one), "kv_bytes_per_token": one.token_bytes(kv_dtype)} for one in catalogue()]
