import pytest

from kvctl.bench.measures import (
    Sample,
    at_least,
    at_most,
    converge_document,
    facts_document,
    medians,
    ratio,
    rotated,
    startup_document,
    targets,
)


def sample(name: str, wall: float, controller: float = 1.0, node: float = 2.0, turn: int = 1) -> Sample:
    return Sample(name, turn, wall, controller, node, 0)


def facts(kvctl: float, ansible: float, pyinfra: float, cpu: float) -> dict[str, object]:
    return facts_document(
        16,
        [
            sample("kvctl", kvctl + 1),
            sample("kvctl-no-tools", kvctl, cpu / 2, cpu / 2),
            sample("ansible", ansible, 4.0, 8.0),
            sample("pyinfra", pyinfra),
        ],
    )


def startup(bare: float, helped: float, status: float) -> dict[str, object]:
    return startup_document({"python": [bare] * 3, "kvctl --help": [helped] * 3, "kvctl status": [status] * 3})


def converge(kvctl: float, playbook: float, hosts: int = 4) -> dict[str, object]:
    return converge_document(hosts, [sample("kvctl", kvctl), sample("ansible-playbook", playbook)])


def test_each_column_has_its_own_median() -> None:
    samples = [sample("a", 3.0, 1.0, 9.0), sample("a", 1.0, 3.0, 9.0), sample("a", 2.0, 2.0, 0.0), sample("b", 7.0)]
    found = medians(samples)
    assert list(found) == ["a", "b"]
    assert (found["a"].wall, found["a"].controller_cpu, found["a"].node_cpu) == (2.0, 2.0, 9.0)
    assert found["a"].total_cpu == 10.0  # the median of 10, 12 and 2, not 2 + 9
    assert found["b"].wall == 7.0


def test_the_median_of_an_even_number_lies_between_the_middle_two() -> None:
    assert medians([sample("a", 1.0), sample("a", 2.0), sample("a", 10.0), sample("a", 4.0)])["a"].wall == 3.0


def test_one_slow_round_does_not_move_the_result() -> None:
    usual = [sample("a", 1.0), sample("a", 1.0), sample("a", 1.1), sample("a", 0.9)]
    assert medians([*usual, sample("a", 60.0)])["a"].wall == 1.0


def test_a_ratio_to_nothing_is_an_error() -> None:
    assert ratio(3.0, 2.0) == 1.5
    with pytest.raises(ValueError, match="cannot divide by 0"):
        ratio(1.0, 0.0)


def test_targets_are_judged_on_what_was_measured_not_on_what_is_printed() -> None:
    assert at_least("x", 3.0, 3.0).ok
    assert not at_least("x", 2.999, 3.0).ok  # printed as 3.00
    assert at_most("x", 1.1, 1.1).ok
    assert not at_most("x", 1.1001, 1.1).ok


def test_each_contestant_goes_first_in_its_turn() -> None:
    names = ["a", "b", "c"]
    assert [rotated(names, turn) for turn in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_ratios_of_facts_have_kvctl_on_the_right_side() -> None:
    ratios = facts(kvctl=2.0, ansible=8.0, pyinfra=4.0, cpu=3.0)["ratios"]
    assert isinstance(ratios, dict)
    assert ratios["ansible wall / kvctl-no-tools wall"] == 4.0
    assert ratios["kvctl-no-tools CPU / ansible CPU"] == 0.25
    assert ratios["kvctl-no-tools wall / pyinfra wall"] == 0.5
    assert ratios["ansible wall / kvctl wall"] == pytest.approx(8 / 3)


def test_startup_has_minima_medians_and_their_ratios() -> None:
    walls = {"python": [0.1, 0.2, 0.3], "kvctl --help": [0.3, 0.4, 9.0], "kvctl status": [1.0, 2.0, 3.0]}
    found = startup_document(walls)
    assert found["min"] == {"python": 0.1, "kvctl --help": 0.3, "kvctl status": 1.0}
    assert found["ratios_of_median"] == {"kvctl --help": pytest.approx(2.0), "kvctl status": pytest.approx(10.0)}
    assert found["ratios_of_min"] == {"kvctl --help": pytest.approx(3.0), "kvctl status": pytest.approx(10.0)}
    assert found["samples"]["kvctl --help"] == [0.3, 0.4, 9.0]


def verdicts(**change: object) -> dict[str, bool]:
    parts = {
        "facts": facts(kvctl=2.0, ansible=6.0, pyinfra=2.0, cpu=4.0),
        "startup": startup(0.1, 0.45, 1.5),
        "converge": [converge(11.0, 10.0)],
        **change,
    }
    return {one.name: one.ok for one in targets(**parts)}  # type: ignore[arg-type]


def test_every_target_is_met_exactly_at_its_limit() -> None:
    found = verdicts(startup=startup(1.0, 4.5, 15.0))
    assert len(found) == 6
    assert all(found.values())


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"facts": facts(2.1, 6.0, 3.0, 4.0)}, "check: ansible wall / kvctl wall"),
        ({"facts": facts(2.0, 6.0, 2.0, 4.1)}, "check: kvctl CPU / ansible CPU"),
        ({"facts": facts(2.0, 6.0, 1.9, 4.0)}, "check: kvctl wall / pyinfra wall"),
        ({"startup": startup(1.0, 4.6, 15.0)}, "start-up: kvctl --help / python"),
        ({"startup": startup(1.0, 4.5, 15.1)}, "start-up: kvctl status / python"),
        ({"converge": [converge(11.1, 10.0, 16)]}, "converge no-op, 16 hosts: kvctl wall / ansible-playbook wall"),
    ],
)
def test_a_worse_number_misses_its_target_alone(change: dict[str, object], missed: str) -> None:
    found = verdicts(**({"startup": startup(1.0, 4.5, 15.0)} | change))
    assert [name for name, ok in found.items() if not ok] == [missed]


def test_converge_that_was_left_out_has_no_target() -> None:
    assert not [name for name in verdicts(converge=[]) if name.startswith("converge")]
