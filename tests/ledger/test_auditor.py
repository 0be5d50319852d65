"""audits/verify.py alone: no kvctl in it, the same damages found, packs and proofs judged."""

import hashlib
import importlib.util
import io
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvctl.ledger import Log
from kvctl.ledger.note import COSIGNATURE, cosign, sign_manifest, verifier_key
from kvctl.ledger.verify import verify
from tests.ledger import damage
from tests.ledger.site import ORIGIN, Key, copy, events, write

FILE = Path(__file__).resolve().parents[2] / "audits" / "verify.py"
SIZES = (1, 255, 256, 257, 1000, 3000)


@pytest.fixture(scope="module")
def auditor():
    spec = importlib.util.spec_from_file_location("auditor", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def key():
    return Key()


@pytest.fixture(scope="module")
def logs(key, tmp_path_factory):
    made = {}
    for size in SIZES:
        made[size] = tmp_path_factory.mktemp(f"log{size}") / "log"
        write(made[size], key, events(size), step=90)
    return made


@pytest.fixture
def judge(auditor, key):
    """Whether everything holds, and what was printed."""

    def judged(directory, since=(), counters=True, witnesses=()):
        keys = [auditor.Key(verifier_key(ORIGIN, key.public)), *(auditor.Key(one) for one in witnesses)]
        out = io.StringIO()
        notes = [auditor.Checkpoint(note, keys) for note in since]
        return auditor.check(directory, keys, notes, out, counters), out.getvalue()

    return judged


@pytest.mark.parametrize("size", SIZES)
def test_clean_logs_hold(judge, logs, size):
    sound, said = judge(logs[size], [(logs[size] / "checkpoint").read_text()])
    assert sound, said
    assert f"{size} entries" in said


def test_every_damage_is_found_and_its_file_named(judge, logs, tmp_path):
    rnd = random.Random(21)
    missed = []
    for number in range(200):
        kind = damage.KINDS[number % len(damage.KINDS)]
        size = 3000 if kind is damage.swap else rnd.choice(SIZES)
        place = copy(logs[size], tmp_path / "log")
        done, path = kind(place, rnd)
        sound, said = judge(place)
        names = (str(path.relative_to(place)), str(path.relative_to(place).parent))
        if sound or not any(f"WRONG  {name}" in said for name in names):
            missed.append((done, said))
    assert missed == []


def test_a_rewritten_log_is_found_by_an_earlier_checkpoint(judge, key, tmp_path):
    write(tmp_path / "log", key, [b"entry %d" % i for i in range(700)])
    note = (tmp_path / "log" / "checkpoint").read_text()
    write(tmp_path / "again", key, [b"entry %d" % i for i in range(3, 800)])
    assert judge(tmp_path / "again", counters=False)[0]
    sound, said = judge(tmp_path / "again", [note], counters=False)
    assert not sound
    assert "entries 0 to 699: were rewritten" in said


AROUND = (*range(254, 259), *range(510, 515))
BEFORE = [(size, later) for size in AROUND for later in AROUND if size < later]


@pytest.fixture(scope="module")
def ends(key, tmp_path_factory):
    """A log of each size around the ends of two tiles, all of the same entries; in `journal` it was not published."""
    place = tmp_path_factory.mktemp("ends")
    entries = events(max(AROUND))
    for size in AROUND:
        with Log.open(place / str(size), ORIGIN, key, publish_seconds=None) as log:
            log.append(entries[:size])
            copy(place / str(size) / "tail", place / "journal" / str(size))
    return place


def crashed(ends, size, later, target, files=None):
    """What a log that grew from `size` to `later` entries leaves when it is killed before it moves its checkpoint.

    `files`: how many it had put into place, all of its tiles when nothing is said; one more is the staged checkpoint.
    And those tiles' names.
    """
    place = copy(ends / str(size), target)
    copy(ends / "journal" / str(later), place / "tail")
    after = ends / str(later)
    tiles = [path.relative_to(after) for path in sorted((after / "tile").rglob("*")) if path.is_file()]
    for name in tiles[:files]:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(after / name, place / name)
    if files is not None and files > len(tiles):
        shutil.copyfile(after / "checkpoint", place / "tmp" / "checkpoint")
    (place / "tmp" / "tile-0-001.p-3").write_bytes(b"half")
    return place, tiles


@pytest.mark.parametrize(("size", "later"), BEFORE)
def test_what_a_kill_leaves_before_the_checkpoint_is_no_problem(judge, key, ends, tmp_path, size, later):
    _, tiles = crashed(ends, size, later, tmp_path / "log")
    for files in range(len(tiles) + 2):
        place, _ = crashed(ends, size, later, tmp_path / "log", files)
        sound, said = judge(place)
        assert sound, said
        assert f"{size} entries" in said
        assert said.count("log kvctl") == 1
        assert verify(place, ORIGIN, key.public).problems == []


@pytest.mark.parametrize(("size", "later"), [(255, 256), (254, 258), (258, 512), (511, 513), (257, 514)])
def test_a_change_in_what_a_kill_left_is_found(judge, key, ends, tmp_path, size, later):
    _, tiles = crashed(ends, size, later, tmp_path / "log")
    for name in tiles:
        place, _ = crashed(ends, size, later, tmp_path / "log")
        data = bytearray((place / name).read_bytes())
        data[len(data) // 2] ^= 1
        (place / name).write_bytes(data)
        sound, said = judge(place)
        assert not sound, name
        assert f"WRONG  {name.as_posix()}" in said
        assert verify(place, ORIGIN, key.public).problems != []


@pytest.mark.parametrize("width", [2, 255])
def test_a_tile_above_the_entries_that_is_of_none_of_them_is_found(judge, ends, tmp_path, width):
    place = copy(ends / "257", tmp_path / "log")
    (place / f"tile/1/000.p/{width}").write_bytes((place / "tile/1/000.p/1").read_bytes() + bytes(32 * (width - 1)))
    sound, said = judge(place)
    assert not sound
    assert f"WRONG  tile/1/000.p/{width}: is not of the entries that were logged" in said


def test_a_lost_event_is_a_gap(judge, key, tmp_path):
    entries = events(300)
    del entries[41]
    write(tmp_path, key, entries)
    sound, said = judge(tmp_path)
    assert not sound
    assert "entry 43, source 'node2': number 15 where 14 is next: 1 missing" in said


def manifest(pack, key):
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(pack).as_posix()}\n"
        for path in sorted(pack.rglob("*"))
        if path.is_file() and not path.name.startswith("MANIFEST.")
    ]
    (pack / "MANIFEST.sha256").write_text("".join(lines))
    (pack / "MANIFEST.sig").write_text(sign_manifest("".join(lines).encode(), ORIGIN, key))


@pytest.fixture
def pack(key, tmp_path):
    """A report, one event with its proof, and an exported log, which has no journal."""
    place = tmp_path / "pack"
    entries = events(600)
    with Log.open(tmp_path / "log", ORIGIN, key, publish_seconds=None) as log:
        log.append(entries)
        place.mkdir()
        (place / "event.json").write_bytes(entries[300])
        (place / "event.json.tlog-proof").write_text(log.prove(300))
    copy(tmp_path / "log", place / "logs" / "control")
    for name in ("tail", "tmp"):
        for path in (place / "logs" / "control" / name).iterdir():
            path.unlink()
        (place / "logs" / "control" / name).rmdir()
    (place / "logs" / "control" / "lock").unlink()
    (place / "report.html").write_text("<p>all well</p>")
    manifest(place, key)
    return place


def run(pack, key, tmp_path, *more):
    (tmp_path / "keys").write_text(f"# the log\n{verifier_key(ORIGIN, key.public)}\n")
    argv = [sys.executable, "-I", str(FILE), str(pack), "--key", str(tmp_path / "keys"), *more]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
    return done.returncode, done.stdout + done.stderr


def test_a_pack_holds_and_exits_0(pack, key, tmp_path):
    code, said = run(pack, key, tmp_path)
    assert code == 0, said
    assert "everything holds" in said
    assert "proof event.json.tlog-proof: holds" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("report.html", "report.html: was changed"),
        ("event.json", "event.json is not entry 300"),
        ("event.json.tlog-proof", "WRONG  event.json.tlog-proof"),
        ("logs/control/tile/0/000", "WRONG  logs/control/tile/0/000"),
        ("logs/control/checkpoint", "WRONG  logs/control/checkpoint"),
    ],
)
def test_a_changed_pack_exits_1_and_names_the_file(pack, key, tmp_path, name, said):
    data = bytearray((pack / name).read_bytes())
    data[len(data) // 2] ^= 1
    (pack / name).write_bytes(data)
    manifest(pack, key) if name != "report.html" else None
    code, printed = run(pack, key, tmp_path)
    assert code == 1
    assert said in printed


def test_files_that_are_gone_or_more_are_named(pack, key, tmp_path):
    (pack / "report.html").unlink()
    (pack / "extra.txt").write_text("more")
    code, said = run(pack, key, tmp_path)
    assert code == 1
    assert "report.html: is in MANIFEST.sha256 and is gone" in said
    assert "extra.txt: is not in MANIFEST.sha256" in said


def test_an_earlier_checkpoint_of_a_log_that_is_not_there(pack, key, tmp_path):
    (tmp_path / "early").write_text((pack / "logs/control/checkpoint").read_text())
    assert run(pack, key, tmp_path, "--since", str(tmp_path / "early"))[0] == 0
    for path in sorted((pack / "logs").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    manifest(pack, key)
    code, said = run(pack, key, tmp_path, "--since", str(tmp_path / "early"))
    assert code == 1
    assert "no log here" in said


def test_wrong_arguments_exit_2(pack, key, tmp_path):
    assert run(tmp_path / "nowhere", key, tmp_path)[0] == 2
    assert run(pack, Key(), tmp_path, "--since", str(pack / "logs/control/checkpoint"))[0] == 2


def test_witnesses_are_named_and_their_signatures_checked(judge, key, logs, tmp_path):
    place = copy(logs[257], tmp_path / "log")
    witness = Key()
    note = (place / "checkpoint").read_text()
    line = cosign(note, "witness.example/w1", witness, 1_800_000_000)
    known = [verifier_key("witness.example/w1", witness.public, COSIGNATURE)]
    (place / "checkpoint").write_text(note + line)
    sound, said = judge(place, witnesses=known)
    assert sound
    assert "cosigned by: witness.example/w1" in said
    assert "cosigned by: none" in judge(place)[1]
    forged = cosign(note.replace("257", "256"), "witness.example/w1", witness, 1_800_000_000)
    (place / "checkpoint").write_text(note + forged)
    assert not judge(place, witnesses=known)[0]


def test_it_imports_nothing_of_kvctl_and_runs_on_python_3_9():
    assert "kvctl." not in "".join(line for line in FILE.read_text().splitlines() if "import" in line)
    vermin = Path(sys.executable).with_name("vermin")
    done = subprocess.run([vermin, "-q", "-t=3.9-", "--violations", "--no-tips", FILE], check=False)
    assert done.returncode == 0


def test_a_list_of_files_that_was_written_anew_is_not_signed(pack, key, tmp_path):
    signed = (pack / "MANIFEST.sig").read_bytes()
    (pack / "report.html").write_text("<p>nothing was ever wrong</p>")
    manifest(pack, Key())
    assert "WRONG  MANIFEST.sig: no given key" in run(pack, key, tmp_path)[1]
    (pack / "MANIFEST.sig").write_bytes(signed)
    assert "WRONG  MANIFEST.sig: no given key" in run(pack, key, tmp_path)[1]
    (pack / "MANIFEST.sig").unlink()
    code, said = run(pack, key, tmp_path)
    assert (code, "WRONG  MANIFEST.sig: cannot be read" in said) == (1, True)


@pytest.mark.parametrize("name", ["MANIFEST.sha256", "MANIFEST.sig"])
def test_a_byte_more_or_less_or_no_list_at_all(pack, key, tmp_path, name):
    was = (pack / name).read_bytes()
    for data in (was + b"\n", was[:-1], None):
        (pack / name).unlink() if data is None else (pack / name).write_bytes(data)
        code, said = run(pack, key, tmp_path)
        assert (code, "WRONG  MANIFEST" in said) == (1, True), said


def test_a_pack_whose_list_was_taken_out_with_its_signature_is_not_taken_for_a_log(pack, key, tmp_path):
    (pack / "report.html").write_text("<p>nothing was ever wrong</p>")
    for name in ("MANIFEST.sha256", "MANIFEST.sig"):
        (pack / name).unlink()
    code, said = run(pack, key, tmp_path)
    assert (code, "WRONG  MANIFEST.sha256: is gone" in said) == (1, True)


def test_bytes_that_are_no_text_are_named_and_end_nothing(pack, key, tmp_path):
    for name in ("MANIFEST.sha256", "MANIFEST.sig", "event.json.tlog-proof", "logs/control/checkpoint"):
        was = (pack / name).read_bytes()
        (pack / name).write_bytes(b"\xff" + was[1:])
        code, said = run(pack, key, tmp_path)
        assert (code, "Traceback" in said, f"WRONG  {name}" in said) == (1, False, True), (name, said)
        (pack / name).write_bytes(was)
