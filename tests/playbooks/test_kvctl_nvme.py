"""Drives: what is done, and what is refused."""

import pytest
from ansible.module_utils import kvctl_nvme, kvctl_nvme_mount, kvctl_nvme_sanitize
from ansible.module_utils.kvctl_nvme import Content, Drive, fs_uuid
from ansible.module_utils.kvctl_refused import Refused

FORMATS = ((0, 512, 0, 2), (1, 4096, 0, 0), (2, 4096, 8, 0), (3, 512, 8, 3))
RAW = {"serial": "S1", "lba": 4096, "layout": "raw", "mount": "", "discard": "fstrim"}
XFS = {"serial": "S1", "lba": 4096, "layout": "xfs", "mount": "/srv/kvctl/S1", "discard": "fstrim"}
OURS = Content(signatures=("xfs",), uuid=fs_uuid("S1"), blank=False, mounts=("/srv/kvctl/S1",))


def drive(**changes):
    state = {"lba": 4096, "metadata": 0, "formats": FORMATS, "format_supported": True, "scheduler": "none",
             "udev": kvctl_nvme.udev_rule("S1")}  # fmt: skip
    return Drive("nvme3", "nvme3n1", **{**state, **changes})


def settled(wanted):
    return drive(content=OURS, fstab=kvctl_nvme.fstab_line(wanted), mount_options=("noatime", "rw"))


def test_a_right_raw_drive_has_no_change():
    plan = kvctl_nvme.plan(RAW, drive())
    assert (plan.after, plan.destroys) == ({}, False)


def test_a_right_file_system_has_no_change():
    plan = kvctl_nvme.plan(XFS, settled(XFS))
    assert (plan.after, plan.destroys) == ({}, False)


def test_512_bytes_are_formatted_to_the_best_format_without_metadata():
    plan = kvctl_nvme.plan(RAW, drive(lba=512))
    assert plan.lbaf == 1
    assert plan.before["lba"] == 512
    assert plan.after["lba"] == 4096
    assert kvctl_nvme.format_command(drive(lba=512), 1)["argv"] == [
        "nvme", "format", "/dev/nvme3n1", "--lbaf=1", "--ses=0", "--force",
    ]  # fmt: skip


def test_a_format_with_metadata_is_not_what_is_wanted():
    assert kvctl_nvme.plan(RAW, drive(metadata=8)).lbaf == 1


def test_metadata_that_the_drive_does_not_show_is_no_reason_to_format():
    assert kvctl_nvme.plan(RAW, drive(metadata=None)).lbaf is None


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (Content(signatures=("ext4",), blank=False), "KV-NVME-010"),
        (Content(signatures=("linux_raid_member",), blank=False), "KV-NVME-010"),
        (Content(signatures=("LVM2_member",), blank=False), "KV-NVME-010"),
        (Content(signatures=("gpt",), partitions=("nvme3n1p1",), blank=False), "KV-NVME-010"),
        (Content(mounts=("/data",), signatures=("xfs",), blank=False), "KV-NVME-011"),
        (Content(holders=("md0",), blank=False), "KV-NVME-011"),
        (Content(blank=False), "KV-NVME-013"),
    ],
)
def test_somebodys_data_is_never_formatted(content, code):
    with pytest.raises(Refused) as refused:
        kvctl_nvme.plan(RAW, drive(lba=512, content=content))
    assert refused.value.code == code


@pytest.mark.parametrize("content", [Content(mounts=("/data",), blank=False), Content(holders=("md0",), blank=False)])
def test_naming_the_serial_does_not_overrule_a_mount_or_a_holder(content):
    with pytest.raises(Refused, match="KV-NVME-011"):
        kvctl_nvme.plan({**RAW, "may_format": True}, drive(lba=512, content=content))


def test_naming_the_serial_allows_to_destroy_a_signature():
    wanted = {**RAW, "may_format": True}
    assert kvctl_nvme.plan(wanted, drive(content=Content(signatures=("ext4",), blank=False))).lbaf == 1


def test_a_blank_drive_gets_a_file_system_only_when_that_is_allowed():
    with pytest.raises(Refused, match="KV-NVME-012"):
        kvctl_nvme.plan(XFS, drive())
    assert kvctl_nvme.plan({**XFS, "may_mkfs": True}, drive()).mkfs


def test_old_signatures_are_wiped_before_the_file_system_is_made():
    named = {**XFS, "may_format": True}
    commands = kvctl_nvme.mkfs_commands(named, drive(content=Content(signatures=("gpt",), blank=False)))
    assert [command["argv"][0] for command in commands] == ["wipefs", "mkfs.xfs"]
    assert [command["argv"][0] for command in kvctl_nvme.mkfs_commands(XFS, drive())] == ["mkfs.xfs"]


def test_another_file_system_of_the_right_type_is_not_ours():
    foreign = OURS._replace(uuid="11111111-2222-3333-4444-555555555555", mounts=())
    with pytest.raises(Refused, match="KV-NVME-010"):
        kvctl_nvme.plan({**XFS, "may_mkfs": True}, drive(content=foreign))


def test_a_drive_without_the_format_is_refused():
    with pytest.raises(Refused, match="KV-NVME-015"):
        kvctl_nvme.plan(RAW, drive(lba=512, formats=((0, 512, 0, 0), (1, 4096, 8, 0))))


@pytest.mark.parametrize("supported", [False, None])
def test_a_drive_that_does_not_say_it_can_format_is_refused(supported):
    with pytest.raises(Refused, match="KV-NVME-016"):
        kvctl_nvme.plan(RAW, drive(lba=512, format_supported=supported))


def test_the_file_system_has_one_uuid_for_ever():
    assert fs_uuid("S1") == "aa876f6d-3df6-5a32-a419-d20bd0fff6ca"
    assert fs_uuid("S1") != fs_uuid("S2")


@pytest.mark.parametrize(
    ("discard", "online", "notrim"), [("online", True, True), ("fstrim", False, False), ("none", False, True)]
)
def test_exactly_one_way_to_discard(discard, online, notrim):
    options = kvctl_nvme.fstab_line({**XFS, "discard": discard}).split()[3].split(",")
    assert ("discard" in options) is online
    assert ("X-fstrim.notrim" in options) is notrim
    assert "noatime" in options


def test_fstab_keeps_every_other_line_and_has_one_of_ours():
    other = "UUID=abc / ext4 defaults 0 1\n# a comment\n"
    once = kvctl_nvme.fstab_with(other, "S1", kvctl_nvme.fstab_line(XFS))
    assert once == other + kvctl_nvme.fstab_line(XFS) + "\n"
    assert kvctl_nvme.fstab_with(once, "S1", kvctl_nvme.fstab_line(XFS)) == once
    assert kvctl_nvme.fstab_with(once, "S1", "") == other


def test_the_fstab_line_names_the_uuid_not_the_device():
    assert kvctl_nvme.fstab_line(XFS).startswith(f"UUID={fs_uuid('S1')} /srv/kvctl/S1 xfs ")


def test_a_mount_elsewhere_is_refused():
    elsewhere = drive(content=OURS._replace(mounts=("/mnt",)), fstab=kvctl_nvme.fstab_line(XFS))
    with pytest.raises(Refused, match="KV-NVME-014"):
        kvctl_nvme_mount.mount(XFS, elsewhere)


def test_wrong_mount_options_are_remounted():
    command = kvctl_nvme_mount.mount_command({**XFS, "discard": "online"}, settled(XFS))
    assert command["argv"][4] == "remount,noatime,discard"


class Identity:
    def __init__(self, **able):
        for name in ("sanitize_crypto", "sanitize_block", "crypto_erase", "format_supported"):
            setattr(self, name, able.get(name))


def test_the_strongest_erase_that_the_drive_has_comes_first():
    every = dict.fromkeys(("sanitize_crypto", "sanitize_block", "crypto_erase", "format_supported"), True)
    assert [name for name, _ in kvctl_nvme_sanitize.methods(Identity(**every))] == [
        "sanitize crypto erase", "sanitize block erase", "format with crypto erase", "format with user data erase",
    ]  # fmt: skip
    assert kvctl_nvme_sanitize.methods(Identity()) == [], "a drive that does not say so cannot"


def test_only_named_serials_are_sanitized():
    with pytest.raises(Refused, match="KV-NVME-030"):
        kvctl_nvme_sanitize.refuse("S1", Content(), ["S2"])
    with pytest.raises(Refused, match="KV-NVME-011"):
        kvctl_nvme_sanitize.refuse("S1", Content(mounts=("/srv",)), ["S1"])


@pytest.mark.parametrize(
    ("text", "status"),
    [('{"nvme0":{"sprog":65535,"sstat":{"global_erased":1,"status":"(1)"}}}', 1), ('{"sstat": 257}', 1),
     ('{"sstat":"0x102"}', 2), ('{"sprog":1}', None), ("", None)],
)  # fmt: skip
def test_sanitize_status(text, status):
    assert kvctl_nvme_sanitize.sanitize_status(text) == status
