"""Leases end by themselves, the longest stands, and their number is bounded."""

from kvctl.store.leases import LONGEST, Leases
from kvctl.types.chunks import Scope

SCOPE = Scope("acme", "users", bytes(16))
OTHER = Scope("acme", "users", bytes(15) + b"\1")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_protects_until_its_end_and_no_longer():
    clock = Clock()
    leases = Leases(clock)
    leases.take(SCOPE, [b"a", b"b"], 2.0)
    assert leases.held(SCOPE, b"a")
    assert not leases.held(OTHER, b"a")
    clock.now = 102.0
    assert not leases.held(SCOPE, b"a")
    assert len(leases) == 0


def test_the_longest_of_two_leases_stands():
    clock = Clock()
    leases = Leases(clock)
    leases.take(SCOPE, [b"a"], 10.0)
    leases.take(SCOPE, [b"a"], 1.0)
    clock.now = 105.0
    assert leases.held(SCOPE, b"a")
    leases.take(SCOPE, [b"a"], 10.0)
    clock.now = 112.0
    assert leases.held(SCOPE, b"a")


def test_no_lease_is_longer_than_the_limit():
    clock = Clock()
    leases = Leases(clock)
    leases.take(SCOPE, [b"a"], 1e9)
    clock.now += LONGEST
    assert not leases.held(SCOPE, b"a")


def test_the_number_of_leases_is_bounded_and_refusals_are_counted():
    clock = Clock()
    leases = Leases(clock, most=2)
    leases.take(SCOPE, [b"a", b"b", b"c"], 5.0)
    assert (leases.held(SCOPE, b"a"), leases.held(SCOPE, b"c"), leases.refused) == (True, False, 1)
    clock.now = 106.0
    leases.take(SCOPE, [b"c"], 5.0)
    assert leases.held(SCOPE, b"c")


def test_an_erased_scope_has_no_leases():
    leases = Leases(Clock())
    leases.take(SCOPE, [b"a"], 5.0)
    leases.take(OTHER, [b"a"], 5.0)
    leases.drop_scope(SCOPE)
    assert (leases.held(SCOPE, b"a"), leases.held(OTHER, b"a")) == (False, True)
