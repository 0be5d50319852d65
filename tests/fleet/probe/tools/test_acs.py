import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.acs import parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("acs")


def test_plx_switch_redirects() -> None:
    (control,) = parse(sample("acs/acsctl_enabled_plx.txt"))
    assert control.redirects is True
    assert (control.request_redirect, control.completion_redirect, control.upstream_forwarding) == (True, True, True)
    assert control.egress_control is False


def test_source_validation_alone_does_not_redirect() -> None:
    controls = parse(sample("acs/acsctl_mixed_host.txt"))
    assert [control.redirects for control in controls] == [True, False, False, True]
    assert controls[1].source_validation is True


def test_capabilities_are_not_controls_and_slots_are_kept() -> None:
    (control,) = parse(sample("lspci/vvv_pex890_switch_acs_off.txt"))
    assert control.slot is not None
    assert control.redirects is False


def test_missing_flag_is_unknown() -> None:
    (control,) = parse("ACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir-\n")
    assert control.redirects is None


def test_no_acs_at_all() -> None:
    assert parse("") == ()
    assert parse("00:00.0 Host bridge: Intel Corporation Device 09a2 (rev 04)\n\tControl: I/O- Mem+\n") == ()


def test_other_texts_are_refused() -> None:
    with pytest.raises(ToolOutputError):
        parse("bash: lspci: command not found\n")


def test_cut_noise_and_damage() -> None:
    for path in ALL:
        assert_cut_changes_nothing(parse, sample(path))
        assert_noise_changes_nothing(parse, sample(path))
    assert_survives_damage(parse, [sample(path) for path in ALL])
