"""What can go wrong between a connector and a store, by what a caller does next."""

from kvctl.connector.wire import Refusal


class StoreError(Exception):
    """A store did not do what it was asked; the three kinds are below."""


class StoreUnavailable(StoreError):
    """No connection, or one that broke: nobody there, a reset, a peer that is not this store or not in step."""


class StoreRefused(StoreError):
    """The store is there and says no; `refusal` is stable, `why` is for people."""

    def __init__(self, refusal: Refusal, why: str) -> None:
        super().__init__(f"{refusal.name.lower()}: {why}")
        self.refusal = refusal
        self.why = why


class TooLarge(StoreRefused, ValueError):
    """A chunk that this store does not take; it was not sent."""

    def __init__(self, why: str) -> None:
        super().__init__(Refusal.TOO_LARGE, why)


class DeadlineExceeded(StoreError):
    """The caller's time was up first."""
