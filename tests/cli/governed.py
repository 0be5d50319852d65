"""A site with people who may vote, and kvctl as a process of its own."""

import json
import os
import pty
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any

from kvctl.controller.accounts import Accounts
from kvctl.controller.core import opened
from kvctl.controller.settings import read
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AccountCreate

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse battery"
ADMIN = Principal("unix:root", frozenset({Role.ADMIN}), fresh=True)


class Kvctl:
    """Runs commands over a state directory below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "state" / "local"

    def __call__(self, *args: str, code: int = 0, typed: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """`typed`: lines on its terminal, each when it is asked for: what is typed ahead of a password is lost."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("KVCTL", "XDG"))}
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "kvctl", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=theirs if typed else subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
            env={**environ, "KVCTL_STATE_DIR": str(self.folder / "state"), "HOME": str(self.folder),
                 "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        late = Timer(60, process.kill)
        late.start()
        with process, ThreadPoolExecutor(2) as pool:
            assert process.stdout is not None
            assert process.stderr is not None
            out, said = pool.submit(process.stdout.read), ""
            for line in typed:
                questions, seen = ("password of",) if line == PASSWORD else ("[y/N]", "to go on"), len(said)
                while not any(q in said[seen:] for q in questions) and (more := process.stderr.read(1)):
                    said += more
                os.write(ours, f"{line}\n".encode())
            err = pool.submit(process.stderr.read)
            done = subprocess.CompletedProcess(args, process.wait(), out.result(), said + err.result())
        late.cancel()
        os.close(ours)
        os.close(theirs)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def document(self, *args: str, code: int = 0) -> Any:
        return json.loads(self(*args, "-o", "json", code=code).stdout)

    def opened(self) -> Any:
        return opened(read(self.site, site="local"))

    def people(self, *names: str, role: str = "approver") -> None:
        with self.opened() as ctl:
            accounts = Accounts(ctl.books)
            for name in names:
                made = ctl.call("account.create", ADMIN, AccountCreate(name, [role]))
                accounts.redeem(made["link"].rpartition("/")[2], PASSWORD)

    def file(self, text: str) -> str:
        path = self.folder / "policy.yaml"
        path.write_text(text)
        return str(path)
