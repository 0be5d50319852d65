"""Every code that a failing command is given has its sentence."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "playbooks" / "module_utils"


def test_every_code_of_a_command_has_its_sentence():
    table = (ROOT / "kvctl_refused.py").read_text()
    known = set(re.findall(r'"(KV-[A-Z]+-\d{3})": "', table))
    used = {
        code
        for file in ROOT.glob("*.py")
        for line in file.read_text().splitlines()
        if "execute(" in line
        for code in re.findall(r"KV-[A-Z]+-\d{3}", line)
    }
    assert used
    assert used - known == set()
