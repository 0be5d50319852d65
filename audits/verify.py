#!/usr/bin/env python3
"""Checks kvctl audit packs and logs, without kvctl: Python 3.9 or newer and the package `cryptography`.

    python verify.py DIR --key PUBKEYFILE [--since CHECKPOINT]...

DIR is a pack (it has a file MANIFEST.sha256) or the directory of a log (it has files `checkpoint` and `tile/...`).
PUBKEYFILE has one verifier key a line, as C2SP writes them: name+number+key. Keys of witnesses may be among them.
CHECKPOINT is a signed checkpoint that you kept from an earlier visit, or that a witness kept for you.

What is checked:
  - MANIFEST.sha256: every file of the pack is listed and has the SHA-256 that it had when the pack was made;
    MANIFEST.sig: a given key signed that list;
  - every log: its checkpoint is signed by a given key; entries, tiles, journal and checkpoint give one another;
    the counter of every source has no gap; the log continues every CHECKPOINT that is of it;
  - every NAME.tlog-proof: the bytes of the file NAME are an entry of the log whose checkpoint is in the proof.
    A proof alone (no file NAME) cannot be checked and is a problem.

What cannot be shown: that the operator, who holds the log's key, did not write the whole log anew before you first
saw it. A checkpoint that you kept (--since) or the cosignature of a witness shows that for what came before.

Exit code 0: everything holds. 1: something does not; every place is named. 2: wrong arguments.
Formats: C2SP tlog-tiles, tlog-checkpoint, signed-note, tlog-proof, tlog-cosignature; RFC 6962 (SHA-256).
"""

import argparse
import base64
import binascii
import hashlib
import json
import re
import struct
import sys
import zlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

WIDTH = 256
HASH = 32
LOG_KEY, WITNESS_KEY = 1, 4
MANIFEST_LABEL = b"kvctl pack manifest 1\n"
# What shows that a directory is a pack, whose list of files must be there, whatever else was taken out of it.
OF_A_PACK = ("MANIFEST.sha256", "MANIFEST.sig", "report.html", "pack.json", "checks")


class Unsound(Exception):
    """Something does not hold; the text says what."""


def sha(data):
    return hashlib.sha256(data).digest()


def leaf(entry):
    return sha(b"\0" + entry)


def node(left, right):
    return sha(b"\1" + left + right)


# Texts


def base64_bytes(text):
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unsound("base64 was expected") from None
    if base64.b64encode(data).decode("ascii") != text:
        raise Unsound("base64 that is not canonical")
    return data


def number(text):
    if not re.fullmatch("0|[1-9][0-9]{0,18}", text):
        raise Unsound(f"{text[:30]!r} is not a number")
    return int(text)


class Key:
    """One verifier key: name, kind, and the Ed25519 public key."""

    def __init__(self, line):
        parts = line.strip().split("+", 2)
        if len(parts) != 3:
            raise Unsound(f"{line.strip()[:60]!r} is not a verifier key name+number+key")
        self.name, identity, material = parts
        raw = base64_bytes(material)
        if len(raw) != 33 or raw[0] not in (LOG_KEY, WITNESS_KEY):
            raise Unsound(f"the key of {self.name} is of an unknown kind")
        self.kind, self.public = raw[0], raw[1:]
        self.identity = sha(self.name.encode("utf-8") + b"\n" + raw)[:4]
        if self.identity.hex() != identity:
            raise Unsound(f"the number of the key of {self.name} is not that of its bytes")

    def holds(self, signature, text):
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True


class Checkpoint:
    """A signed checkpoint, opened with the known keys. Unsound when no known key of its log signed it."""

    def __init__(self, note, keys):
        text, gap, tail = note.rpartition("\n\n")
        lines = tail.split("\n")
        if not gap or lines.pop() != "" or not lines:
            raise Unsound("this is no signed note")
        fields = text.split("\n")
        if len(fields) < 3 or not all(fields):
            raise Unsound("there is no origin, size and root")
        self.note, self.text = note, text + "\n"
        self.origin, self.size, self.root = fields[0], number(fields[1]), base64_bytes(fields[2])
        if len(self.root) != HASH:
            raise Unsound("the root is not of 32 bytes")
        self.witnesses = []
        signed = False
        for line in lines:
            signed = self._signature(line, keys) or signed
        if not signed:
            raise Unsound(f"no given key of the log {self.origin} signed it")

    def _signature(self, line, keys):
        """Whether this line is the log's own signature; lines of unknown keys are skipped."""
        words = line.split(" ")
        if len(words) != 3 or words[0] != "\u2014":
            raise Unsound("a line below the checkpoint is no signature")
        raw = base64_bytes(words[2])
        for key in keys:
            if (key.name, key.identity) != (words[1], raw[:4]):
                continue
            if key.kind == LOG_KEY and key.name == self.origin:
                if not key.holds(raw[4:], self.text.encode("utf-8")):
                    raise Unsound(f"the signature of {key.name} does not hold")
                return True
            if key.kind == WITNESS_KEY:
                time = int.from_bytes(raw[4:12], "big")
                text = f"cosignature/v1\ntime {time}\n{self.text}"
                if not key.holds(raw[12:], text.encode("utf-8")):
                    raise Unsound(f"the cosignature of {key.name} does not hold")
                self.witnesses.append(key.name)
        return False


# The tree


class Tree:
    """Complete subtrees from the left, as (height, root); grows by subtrees of equal or smaller height."""

    def __init__(self):
        self.size = 0
        self.peaks = []

    def add(self, root, height=0):
        self.size += 1 << height
        while self.peaks and self.peaks[-1][0] == height:
            root = node(self.peaks.pop()[1], root)
            height += 1
        self.peaks.append((height, root))

    def root(self):
        if not self.peaks:
            return sha(b"")
        root = self.peaks[-1][1]
        for _, peak in reversed(self.peaks[:-1]):
            root = node(peak, root)
        return root

    def copy(self):
        other = Tree()
        other.size, other.peaks = self.size, list(self.peaks)
        return other


def root_over(hashes):
    tree = Tree()
    for one in hashes:
        tree.add(one)
    return tree.root()


def root_of_proof(entry_hash, index, size, path):
    """RFC 9162, 2.1.3.2."""
    if not 0 <= index < size:
        raise Unsound(f"there is no entry {index} in a log of {size}")
    fn, sn, found = index, size - 1, entry_hash
    for sibling in path:
        if sn == 0:
            raise Unsound("the proof is too long")
        if fn & 1 or fn == sn:
            found = node(sibling, found)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = node(found, sibling)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise Unsound("the proof is too short")
    return found


# A log's directory


def tile_name(kind, index, width):
    groups = [f"{index % 1000:03}"]
    while index >= 1000:
        index //= 1000
        groups.insert(0, f"x{index % 1000:03}")
    return "tile/{}/{}{}".format(kind, "/".join(groups), "" if width == WIDTH else f".p/{width}")


def parse_tile_name(name):
    match = re.fullmatch(r"tile/(entries|\d{1,2})/((?:x\d{3}/)*\d{3})(?:\.p/([1-9]\d{0,2}))?", name)
    if not match:
        return None
    index = int(match.group(2).replace("x", "").replace("/", ""))
    kind = match.group(1) if match.group(1) == "entries" else int(match.group(1))
    return kind, index, int(match.group(3) or WIDTH)


def bundle(data):
    """Whole entries from the beginning, and whether that is all there is."""
    entries, at = [], 0
    while at + 2 <= len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data):
            break
        entries.append(data[at + 2 : end])
        at = end
    return entries, at == len(data)


class LogCheck:
    """Checks one log; `say(place, what)` is told every problem."""

    def __init__(self, directory, keys, since, say, counters=True, exported=False):
        self.directory, self.keys, self.since = directory, keys, since
        self.say, self.counters = say, counters
        self.exported = exported  # a copy in a pack has no journal: it ends with its checkpoint
        self.last = {}  # source -> its last number
        self.unread = None  # sources seen since entries could not be read; None: all could
        self.tree = Tree()
        self.levels = []  # hashes of each level above the leaves
        self.seen = set()  # files that were compared
        self.checkpoint = None
        self.kept = {}  # bundle -> entries, of the last ones, for the journal
        self.trusted = True

    def read(self, name):
        try:
            return (self.directory / name).read_bytes()
        except OSError as error:
            self.say(name, f"cannot be read: {error.strerror or error}")
            return None

    def run(self):
        data = self.read("checkpoint")
        try:
            if data is not None:
                self.checkpoint = Checkpoint(data.decode("utf-8"), self.keys)
        except (Unsound, UnicodeDecodeError) as error:
            self.say("checkpoint", f"is no checkpoint of a known log: {error}")
        journal = self.journal()
        if self.checkpoint:
            size = self.checkpoint.size
        elif journal:
            size = journal[-1][1] + len(journal[-1][2])
        else:
            size = WIDTH * len(list((self.directory / "tile/entries").rglob("[0-9][0-9][0-9]")))
        self.first_of_journal = journal[0][1] if journal else size
        for index in range(-(-size // WIDTH)):
            self.bundle(index, min(WIDTH, size - index * WIDTH))
        if self.trusted:
            self.upper(size)
            if self.checkpoint and self.tree.root() != self.checkpoint.root:
                self.say("checkpoint", f"its root is not that of entries 0 to {size - 1}")
        self.earlier(size)
        self.compare_journal(journal, size)
        self.others(size, journal)
        return size

    def hashes(self, level, index, width):
        name = tile_name(level, index, width)
        self.seen.add(name)
        data = self.read(name)
        if data is None:
            return None
        if len(data) != HASH * width:
            self.say(name, f"has {len(data)} bytes, not {HASH * width}")
            return None
        return [data[i : i + HASH] for i in range(0, len(data), HASH)]

    def bundle(self, index, width):
        name = tile_name("entries", index, width)
        self.seen.add(name)
        stored = self.hashes(0, index, width)
        data = self.read(name)
        entries, whole = bundle(data) if data is not None else ([], False)
        good = data is not None and whole and len(entries) == width
        leaves = [leaf(entry) for entry in entries]
        if not good and data is not None:
            at = first_difference(leaves, stored or [])
            index_of_fault = index * WIDTH + (min(len(leaves), width - 1) if at is None else at)
            self.say(name, f"from entry {index_of_fault} on it is not what was logged")
        chosen = leaves if good else stored
        if good and stored is not None and leaves != stored:
            chosen, good = self.blame(index, width, leaves, stored), False
        if good:
            if (index + 1) * WIDTH > self.first_of_journal:
                self.kept[index] = entries
            if self.counters:
                self.count(name, index * WIDTH, entries)
        else:
            self.unread = set()
        self.grow(index, width, chosen)

    def blame(self, index, width, leaves, stored):
        """Which of bundle and tile the rest of the tree speaks for; the other is named."""
        if width == WIDTH:
            above = self.parent(index)
            tile_holds, entries_hold = root_over(stored) == above, root_over(leaves) == above
        else:
            tile_holds, entries_hold = self.leads_to_root(stored), self.leads_to_root(leaves)
        at = first_difference(leaves, stored)
        wrong = [index * WIDTH + i for i, (a, b) in enumerate(zip(leaves, stored)) if a != b]  # noqa: B905
        listed = ", ".join(map(str, wrong[:5])) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        if not entries_hold:
            self.say(tile_name("entries", index, width), f"entry {listed} is not what was logged")
        if not tile_holds:
            self.say(tile_name(0, index, width), f"the hash of entry {index * WIDTH + at} was changed")
        return stored if tile_holds else leaves

    def leads_to_root(self, hashes):
        tree = self.tree.copy()
        for one in hashes:
            tree.add(one)
        return self.checkpoint is not None and tree.root() == self.checkpoint.root

    def parent(self, index):
        tile, offset = divmod(index, WIDTH)
        place = self.directory / tile_name(1, tile, WIDTH)
        partials = sorted((int(p.name), p) for p in place.parent.glob(place.name + ".p/*") if p.name.isdigit())
        for path in [p for width, p in partials if width > offset] + [place]:
            if path.is_file():
                return path.read_bytes()[offset * HASH : (offset + 1) * HASH]
        return None

    def grow(self, index, width, chosen):
        if not self.trusted:
            return
        if chosen is None:
            above = self.parent(index) if width == WIDTH else None
            if above is None or len(above) != HASH:
                self.trusted = False
                self.say(
                    f"entries {index * WIDTH} to {index * WIDTH + width - 1}",
                    "are missing, and so is their place in the tree",
                )
                return
            self.tree.add(above, 8)
            self.level(1, above)
            return
        for one in self.since:
            if self.checkpoint and one.origin == self.checkpoint.origin and 0 <= one.size - self.tree.size <= width:
                tree = self.tree.copy()
                for h in chosen[: one.size - self.tree.size]:
                    tree.add(h)
                one.found = tree.root()
        for one in chosen:
            self.tree.add(one)
        if width == WIDTH:
            self.level(1, root_over(chosen))

    def level(self, level, root):
        while len(self.levels) < level:
            self.levels.append([])
        row = self.levels[level - 1]
        row.append(root)
        if len(row) % WIDTH == 0:
            self.level(level + 1, root_over(row[-WIDTH:]))

    def upper(self, size):
        for level, row in enumerate(self.levels, 1):
            for at in range(0, len(row), WIDTH):
                hashes = row[at : at + WIDTH]
                stored = self.hashes(level, at // WIDTH, len(hashes))
                i = first_difference(hashes, stored) if stored else None
                if i is not None:
                    each = WIDTH**level
                    first = (at + i) * each
                    name = tile_name(level, at // WIDTH, len(hashes))
                    self.say(name, f"hash {i} is not that of entries {first} to {first + each - 1}")

    def count(self, name, start, entries):
        for index, entry in enumerate(entries, start):
            try:
                event = json.loads(entry.decode("utf-8"))
                source, seq = event["source"], event["seq"]
                if not isinstance(source, str) or type(seq) is not int:
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                self.say(name, f"entry {index} has no source and number")
                continue
            due = self.last.get(source, 0) + 1
            again = self.unread is not None and source not in self.unread
            if again:
                self.unread.add(source)
            if seq != due and not (again and seq > due):
                how = f"{seq - due} missing" if seq > due else "doubled or out of order"
                text = "entry {}, source {!r}: number {} where {} is next: {}"
                self.say(name, text.format(index, source, seq, due, how))
            self.last[source] = max(seq, due - 1)

    def earlier(self, size):
        good = 0
        for one in sorted(self.since, key=lambda one: one.size):
            if not self.checkpoint or one.origin != self.checkpoint.origin:
                continue
            one.used = True
            if one.size > size:
                self.say(
                    f"entries {size} to {one.size - 1}",
                    f"are gone: an earlier checkpoint covers {one.size}",
                )
            elif one.size == 0:
                continue
            elif getattr(one, "found", None) is None:
                self.say(
                    f"entries {good} to {one.size - 1}",
                    "too much is missing to compare with the earlier checkpoint",
                )
            elif one.found != one.root:
                self.say(
                    f"entries {good} to {one.size - 1}",
                    "were rewritten: the earlier checkpoint has another root",
                )
            else:
                good = one.size

    # The journal: entries that are not in full tiles yet

    def journal(self):
        place = self.directory / "tail"
        if not place.is_dir():
            return []
        found = []
        for path in sorted(place.iterdir()):
            name = "tail/" + path.name
            data = self.read(name)
            if data is None:
                continue
            if (
                len(data) < 36
                or data[:8] != b"KVTAIL1\n"
                or zlib.crc32(data[:32]) != int.from_bytes(data[32:36], "big")
            ):
                self.say(name, "byte 0: this is no journal")
                continue
            first, salt = int.from_bytes(data[8:16], "big"), data[16:32]
            if path.name != f"{first:016}":
                self.say(name, f"it says that it begins with entry {first}")
                continue
            entries = []
            fault, at = self.frames(data, salt, first, entries)
            if fault:
                self.say(name, f"byte {at}, entry {first + len(entries)}: {fault}")
            found.append((name, first, entries))
        return found

    @staticmethod
    def frames(data, salt, first, entries):
        at = 36
        while at < len(data):
            if len(data) - at < 24:
                return "too few bytes for a frame", at
            magic, length, index, count, crc = struct.unpack_from(">4sIQII", data, at)
            payload = data[at + 24 : at + 24 + length]
            if magic != b"KVG1" or len(payload) != length:
                return "no whole frame is here", at
            if crc != zlib.crc32(payload, zlib.crc32(data[at : at + 20], zlib.crc32(salt))):
                return "the checksum is wrong", at
            group, whole = bundle(payload)
            if not whole or len(group) != count or index != first + len(entries):
                return "the frame does not hold what it says", at
            entries.extend(group)
            at += 24 + length
        return "", at

    def compare_journal(self, journal, size):
        if not (self.directory / "tail").is_dir():
            if not self.exported:
                self.say("tail", "there is no journal")
            return
        due = size - size % WIDTH
        if not journal:
            self.say("tail", f"there is no journal from entry {due} on")
            return
        for place, (name, first, entries) in enumerate(journal):
            if first != due if place else first > due:
                self.say(name, f"begins with entry {first} where {due} is next")
            due = first + len(entries)
            for index, entry in enumerate(entries, first):
                known = self.kept.get(index // WIDTH)
                if index < size and known is not None and known[index % WIDTH] != entry:
                    self.say(name, f"entry {index} is not the one in the tiles")
        if due < size:
            self.say(journal[-1][0], f"entries {due} to {size - 1} are gone")

    def others(self, size, journal):
        """Files that the checkpoint does not ask for must begin or continue those that it does."""
        if self.trusted:
            ahead = self.entries_from(size - size % WIDTH, journal)
            for at in range(0, len(ahead) - WIDTH + 1, WIDTH):
                self.level(1, root_over(leaf(one) for one in ahead[at : at + WIDTH]))
        for path in sorted(self.directory.rglob("*")):
            name = path.relative_to(self.directory).as_posix()
            if path.is_dir() or name in self.seen or name in ("lock", "checkpoint") or name.startswith("tmp/"):
                continue
            if re.fullmatch(r"tail/\d{16}", name):
                continue
            tile = parse_tile_name(name)
            if tile is None:
                self.say(name, "this is no file of a log")
            elif not self.same(path, tile, size, journal):
                self.say(name, "is not of the entries that were logged")

    def same(self, path, tile, size, journal):
        kind, index, width = tile
        if kind not in ("entries", 0):
            if not self.trusted:
                return self.prefix_of_wider(path, kind, index, width)
            row = self.levels[kind - 1] if kind <= len(self.levels) else []
            hashes = row[index * WIDTH : index * WIDTH + width]
            return len(hashes) == width and path.read_bytes() == b"".join(hashes)
        start = index * WIDTH
        if start + width <= size:
            return self.prefix_of_wider(path, kind, index, width)
        entries = self.entries_from(start, journal)[:width]
        if kind == "entries":
            want = b"".join(len(one).to_bytes(2, "big") + one for one in entries)
        else:
            want = b"".join(leaf(one) for one in entries)
        return len(entries) == width and path.read_bytes() == want

    def entries_from(self, start, journal):
        """Entries from the first one of a bundle on, as far as bundle and journal go."""
        entries = list(self.kept.get(start // WIDTH, []))
        for _, first, more in journal:
            if first <= start + len(entries):
                entries += more[start + len(entries) - first :]
        return entries

    def prefix_of_wider(self, path, kind, index, width):
        data = path.read_bytes()
        for name in self.seen:
            tile = parse_tile_name(name)
            if tile and tile[:2] == (kind, index) and tile[2] > width and (self.directory / name).is_file():
                wider = (self.directory / name).read_bytes()
                if kind != "entries":
                    return data == wider[: HASH * width]
                return bundle(data) == (bundle(wider)[0][:width], True)
        return False


def first_difference(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), None)  # noqa: B905


# A pack


def check_signature(pack, keys, say):
    """A given log's key signed the list: otherwise whoever changed a file could have written the list anew."""
    name = "MANIFEST.sig"
    try:
        line = (pack / name).read_bytes().decode("utf-8")
        words = line[:-1].split(" ")
        if len(words) != 3 or words[0] != "\u2014" or line[-1:] != "\n":
            raise Unsound("is no signature line")
        raw, text = base64_bytes(words[2]), MANIFEST_LABEL + (pack / "MANIFEST.sha256").read_bytes()
        known = [one for one in keys if one.kind == LOG_KEY and (one.name, one.identity) == (words[1], raw[:4])]
        if not any(one.holds(raw[4:], text) for one in known):
            raise Unsound("no given key signed MANIFEST.sha256 as it is")
    except OSError as error:
        say(name, f"cannot be read, so nobody signed the list of files: {error.strerror or error}")
    except (Unsound, UnicodeDecodeError) as error:
        say(name, str(error))


def check_manifest(pack, keys, say):
    """Every file is listed once and has its SHA-256. How many there are."""
    if not (pack / "MANIFEST.sha256").is_file():
        say("MANIFEST.sha256", "is gone: this is a pack without a list of its files")
        return 0
    check_signature(pack, keys, say)
    listed = {}
    for place, line in enumerate((pack / "MANIFEST.sha256").read_bytes().decode("utf-8", "replace").splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        name = match.group(2)[2:] if match and match.group(2).startswith("./") else match and match.group(2)
        if not match or name in listed or Path(name).is_absolute() or ".." in Path(name).parts:
            say("MANIFEST.sha256", f"line {place} is not `SHA-256  path`")
        else:
            listed[name] = match.group(1)
    present = {
        path.relative_to(pack).as_posix() for path in pack.rglob("*") if path.is_symlink() or not path.is_dir()
    } - {"MANIFEST.sha256", "MANIFEST.sig"}
    for name in sorted(present - set(listed)):
        say(name, "is not in MANIFEST.sha256")
    for name, digest in sorted(listed.items()):
        path = pack / name
        if path.is_symlink() or not path.is_file():
            say(name, "is in MANIFEST.sha256 and is gone")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            say(name, "was changed after the pack was made")
    return len(listed)


def check_proof(path, keys):
    """That the file beside a proof is an entry; the proof's checkpoint. Unsound otherwise."""
    entry = path.with_suffix("")
    if not entry.is_file():
        raise Unsound(f"there is no file {entry.name} that it is the proof of")
    head, gap, note = path.read_bytes().decode("utf-8").partition("\n\n")
    lines = head.split("\n")
    if not gap or lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise Unsound("this is no proof of inclusion")
    if lines and lines[0].startswith("extra "):
        lines.pop(0)
    if not lines or not lines[0].startswith("index "):
        raise Unsound("there is no line `index N`")
    index, path_hashes = number(lines.pop(0)[6:]), [base64_bytes(line) for line in lines]
    if any(len(one) != HASH for one in path_hashes):
        raise Unsound("a hash is not of 32 bytes")
    checkpoint = Checkpoint(note, keys)
    if root_of_proof(leaf(entry.read_bytes()), index, checkpoint.size, path_hashes) != checkpoint.root:
        raise Unsound(f"{entry.name} is not entry {index} of the log {checkpoint.origin}")
    return checkpoint


def logs_of(directory):
    """Directories of logs: those with a checkpoint or with tiles, and not what a crash left in a log's own `tmp`."""
    found = {path.parent for path in directory.rglob("checkpoint") if path.is_file()}
    found |= {path.parent for path in directory.rglob("tile") if path.is_dir()}
    return sorted(place for place in found if place.name != "tmp" or place.parent not in found)


def check(directory, keys, since, out, counters=True):
    """Print what was found; whether everything holds."""
    problems = []

    def teller(prefix):
        def say(place, what):
            problems.append((place, what))
            out.write(f"WRONG  {prefix}{place}: {what}\n")

        return say

    counted = 0
    pack = any((directory / name).exists() for name in OF_A_PACK)
    if pack:
        counted += 1
        out.write("manifest: {} files\n".format(check_manifest(directory, keys, teller(""))))
    for place in logs_of(directory):
        counted += 1
        prefix = "" if place == directory else place.relative_to(directory).as_posix() + "/"
        log = LogCheck(place, keys, since, teller(prefix), counters, pack)
        size = log.run()
        origin = log.checkpoint.origin if log.checkpoint else "unknown"
        witnesses = ", ".join(log.checkpoint.witnesses) if log.checkpoint and log.checkpoint.witnesses else "none"
        out.write(f"log {origin}: {size} entries; cosigned by: {witnesses}\n")
    for path in sorted(directory.rglob("*.tlog-proof")):
        counted += 1
        name = path.relative_to(directory).as_posix()
        try:
            found = check_proof(path, keys)
            out.write(f"proof {name}: holds, log {found.origin} of {found.size} entries\n")
        except (Unsound, UnicodeDecodeError, OSError) as error:
            teller("")(name, str(error))
    for one in since:
        if not getattr(one, "used", False):
            teller("")("--since", f"no log here is the {one.origin} of the earlier checkpoint")
    if not counted:
        teller("")(str(directory), "there is no manifest, log or proof here")
    out.write("{}\n".format("everything holds" if not problems else f"{len(problems)} PROBLEMS"))
    return not problems


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--key", required=True, type=Path, metavar="PUBKEYFILE")
    parser.add_argument("--since", action="append", default=[], type=Path, metavar="CHECKPOINT")
    parser.add_argument("--no-counters", action="store_true", help="entries are not numbered by source")
    asked = parser.parse_args(argv)
    try:
        lines = asked.key.read_text("utf-8").splitlines()
        keys = [Key(line) for line in lines if line.strip() and not line.startswith("#")]
        since = [Checkpoint(path.read_bytes().decode("utf-8"), keys) for path in asked.since]
        if not asked.directory.is_dir():
            raise Unsound(f"{asked.directory} is no directory")
    except (OSError, UnicodeDecodeError, Unsound) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0 if check(asked.directory, keys, since, sys.stdout, not asked.no_counters) else 1


if __name__ == "__main__":
    sys.exit(main())
