"""An engine's fingerprints where people find them: its log, and files that `kvctl fingerprint --diff` compares."""

import logging
from pathlib import Path

from kvctl.connector.fingerprint import Fingerprint, to_json

log = logging.getLogger("vllm.kvctl")  # the engine shows what its own loggers say


def tell(fingerprint: Fingerprint, of: str, folder: Path | None) -> None:
    """Log it, and write `<digest>.json` into the directory. A directory that cannot be written is only logged."""
    log.info("kvctl: fingerprint of %s\n%s", of, fingerprint.readable())
    if folder is None:
        return
    file = folder / f"{fingerprint.digest().hex()}.json"
    beside = file.with_suffix(".new")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(to_json(fingerprint))
        beside.replace(file)
    except OSError as error:
        log.warning("KV-VLLM-022: the fingerprint of %s is not in %s: %s", of, folder, error.strerror or error)
