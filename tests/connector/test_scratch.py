"""Memory for sealed bytes: reused, and there before it is needed."""

import resource

from kvctl.connector.scratch import STEP, ScratchPool


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_what_was_filled_is_handed_out_and_touches_no_new_page():
    pool = ScratchPool()
    pool.fill(4 * STEP - 100, 3)
    assert pool.kept == 3 * 4 * STEP
    taken = [pool.take(4 * STEP) for _ in range(3)]
    assert pool.kept == 0
    before = faults()
    for scratch in taken:
        scratch[::4096] = b"\1" * (len(scratch) // 4096)
    assert faults() - before < 3 * 4 * STEP // 4096 // 4
    fresh = pool.take(4 * STEP)
    before = faults()
    fresh[::4096] = b"\1" * (len(fresh) // 4096)
    assert faults() > before


def test_it_is_filled_up_and_not_beyond_what_is_kept():
    pool = ScratchPool(keep=5 * STEP)
    pool.fill(STEP, 2)
    pool.fill(STEP, 2)
    assert pool.kept == 2 * STEP
    pool.fill(2 * STEP, 10)
    assert pool.kept == 4 * STEP


def test_what_is_given_back_is_used_again():
    pool = ScratchPool()
    with pool.lent(10) as view:
        view[:] = b"0123456789"
    with pool.lent(STEP) as view:
        assert bytes(view[:10]) == b"0123456789"
    assert pool.kept == STEP
