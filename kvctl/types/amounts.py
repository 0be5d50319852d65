"""Amounts in words, the same on every face."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Bytes in a binary unit, to a tenth: 1536 is 1.5 KiB."""
    amount = float(count)
    for unit in UNITS:
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} PiB"
