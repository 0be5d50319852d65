"""Ways to damage a log's directory. Each returns what was done, and the file or entry that a check must name."""

from kvctl.ledger.tail import FRAME, SEGMENT, encode_frame
from kvctl.ledger.tiles import begin_bundle, decode_bundle, encode_bundle
from tests.ledger.site import write


def files(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)


def flip(directory, rnd):
    path = rnd.choice(files(directory))
    data = bytearray(path.read_bytes())
    at = rnd.randrange(len(data))
    data[at] ^= rnd.randrange(1, 256)
    path.write_bytes(data)
    return f"byte {at} of {path}", path


def delete(directory, rnd):
    path = rnd.choice(files(directory))
    path.unlink()
    return f"{path} deleted", path


def truncate(directory, rnd):
    path = rnd.choice(files(directory))
    data = path.read_bytes()
    path.write_bytes(data[: rnd.randrange(len(data))])
    return f"{path} cut", path


def lengthen(directory, rnd):
    path = rnd.choice(files(directory))
    with path.open("ab") as file:
        file.write(rnd.randbytes(rnd.randrange(1, 100)))
    return f"{path} lengthened", path


def swap(directory, rnd):
    path = rnd.choice([path for path in files(directory) if "tile/entries" in str(path)])
    entries = decode_bundle(path.read_bytes())
    one, other = rnd.sample(range(len(entries)), 2)
    entries[one], entries[other] = entries[other], entries[one]
    path.write_bytes(encode_bundle(entries))
    return f"entries {one} and {other} of {path} swapped", path


def forge_journal(directory, rnd):
    """Another entry in the journal, with a checksum that is right."""
    path = rnd.choice([path for path in files(directory) if path.parent.name == "tail"])
    data = path.read_bytes()
    salt = SEGMENT.unpack_from(data)[2]
    at, offsets = SEGMENT.size, []
    while at < len(data):
        offsets.append(at)
        at += FRAME.size + FRAME.unpack_from(data, at)[1]
    at = rnd.choice(offsets)
    _, length, first, count, _ = FRAME.unpack_from(data, at)
    payload = data[at + FRAME.size : at + FRAME.size + length]
    entries, _ = begin_bundle(payload)
    entries[rnd.randrange(count)] = b'{"source":"node0","seq":1}'
    frame = encode_frame(salt, first, count, encode_bundle(entries))
    path.write_bytes(data[:at] + frame + data[at + FRAME.size + length :])
    return f"an entry of the frame at {at} of {path} replaced", path


KINDS = (flip, flip, flip, delete, truncate, lengthen, swap, forge_journal)


def rewrite(entries, rnd, target, key):
    """The whole log written anew with its key, one entry removed, changed or moved."""
    what = rnd.choice(("remove", "change", "swap", "cut"))
    again = list(entries)
    at = rnd.randrange(len(again) - 1)
    if what == "remove":
        del again[at]
    elif what == "change":
        again[at] = again[at].replace(b"block.read", b"block.gone")
    elif what == "swap":
        again[at], again[at + 1] = again[at + 1], again[at]
    else:
        del again[rnd.randrange(1, len(again)) :]
    write(target, key, again)
    return f"{what} at {at}", at
