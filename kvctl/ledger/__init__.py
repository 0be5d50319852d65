"""The tamper-evident log: C2SP tlog-tiles on local files. docs/ledger.md has the format and what a check proves."""

from kvctl.ledger.log import Log
from kvctl.ledger.note import Signer
from kvctl.ledger.reader import Reader

__all__ = ["Log", "Reader", "Signer"]
