from kvctl.bench.store.cells import MIB, Cell, Op
from kvctl.bench.store.figures import Figures, Scaled
from kvctl.bench.store.targets import Target, targets


def figure(gbps: float, cpu: float = 0.5) -> Figures:
    return Figures(5, gbps, cpu / 2, cpu / 2, 0.1, cpu, 0.001, 0.002)


def scaled(has: float, small: float, large: float) -> Scaled:
    return Scaled(1_000_000, 100.0, 2.0, 2.5, 3.0, has, has, MIB, 100, small, large, (has,), ((small, large),))


def by_name(found: list[Target]) -> dict[str, Target]:
    return {one.name: one for one in found}


def test_nothing_measured_is_no_pass() -> None:
    found = targets({}, None)
    assert len(found) > 10
    assert {(one.measured, one.ok) for one in found} == {(None, None)}


def test_a_target_without_its_peer_is_not_measured() -> None:
    cell = Cell(Op.GET, 2 * MIB, 4)
    found = by_name(targets({cell: {"kvstored-tcp": figure(1.4), "raw-tcp": figure(2.0)}}, None))
    raw = found["GET 2 MiB x4, opened: kvstored / raw TCP, GB/s"]
    assert (round(raw.measured or 0, 6), raw.ok, raw.required) == (0.7, True, ">= 0.70")
    assert found["GET 2 MiB x4, opened: kvstored / redis, GB/s"].ok is None


def test_processor_time_is_compared_by_its_difference() -> None:
    cell = Cell(Op.GET, 16 * MIB, 4)
    name = "GET 16 MiB x4, opened: kvstored - raw TCP, CPU s/GB"
    for ours, ok in ((0.5, True), (0.6, False)):
        found = by_name(targets({cell: {"kvstored-tcp": figure(1, ours), "raw-tcp": figure(1, 0.4)}}, None))
        assert found[name].ok is ok


def test_equal_is_not_ahead() -> None:
    cell = Cell(Op.GET, 2 * MIB, 4)
    found = by_name(targets({cell: {"kvstored-tcp": figure(1.0), "redis": figure(1.0)}}, None))
    assert found["GET 2 MiB x4, opened: kvstored / redis, GB/s"].ok is False


def test_disk_targets_are_judged_at_each_number_in_flight() -> None:
    table = {
        Cell(Op.GET, 2 * MIB, depth): {"kvstored-cold": figure(gbps), "fio": figure(1.0)}
        for depth, gbps in ((1, 0.8), (8, 0.9))
    } | {Cell(Op.DURABLE, 2 * MIB, 8): {"kvstored-tcp": figure(0.6), "fio": figure(1.0)}}
    found = by_name(targets(table, None))
    assert found["GET 2 MiB x1, cold, opened: kvstored / fio O_DIRECT, GB/s"].ok is False
    assert found["GET 2 MiB x8, cold, opened: kvstored / fio O_DIRECT, GB/s"].ok is True
    assert found["PUT 2 MiB x8, durable: kvstored / fio write + flush, GB/s"].ok is True


def test_targets_of_scale() -> None:
    found = by_name(targets({}, scaled(0.002, 0.010, 0.012)))
    assert found["HAS of 1000 keys in a million chunks, p50 ms"].ok is True
    assert found["GET p99 with 100x the stored data / with 1x"].ok is True
    found = by_name(targets({}, scaled(0.003, 0.010, 0.013)))
    assert found["HAS of 1000 keys in a million chunks, p50 ms"].ok is False
    assert found["GET p99 with 100x the stored data / with 1x"].ok is False
