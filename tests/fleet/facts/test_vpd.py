from hypothesis import given
from hypothesis import strategies as st

from kvctl.fleet.facts.vpd import Vpd, decode


def card(part: bytes, serial: bytes) -> bytes:
    name = b"ConnectX-6 Dx"
    body = b"PN" + bytes([len(part)]) + part + b"SN" + bytes([len(serial)]) + serial + b"RV\x01\x00"
    return b"\x82" + len(name).to_bytes(2, "little") + name + b"\x90" + len(body).to_bytes(2, "little") + body + b"\x78"


def test_part_and_serial_are_read() -> None:
    assert decode(card(b"MCX623106AN-CDAT", b"MT2222X00001  ")) == Vpd(
        "ConnectX-6 Dx", "MCX623106AN-CDAT", "MT2222X00001"
    )


def test_data_that_is_cut_gives_what_stands_before_the_cut() -> None:
    data = card(b"MCX623106AN-CDAT", b"MT2222X00001")
    assert decode(data[:20]) == Vpd("ConnectX-6 Dx", None, None)


def test_a_field_of_binary_data_is_no_text() -> None:
    assert decode(card(b"\xff\x01\x02", b"MT2222X00001")).part_number is None


@given(st.binary(max_size=400))
def test_any_bytes_give_texts_or_none(data: bytes) -> None:
    found = decode(data)
    for value in (found.product, found.part_number, found.serial):
        assert value is None or (value.isprintable() and value)
