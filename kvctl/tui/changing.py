"""From a key to a change: what is typed, what the controller says it would do, a yes, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvctl.client.choose import sign_in
from kvctl.client.http import Http
from kvctl.tui.asking import Answer
from kvctl.tui.changes import Ask, Change, Doc, Field, Given, Proposed
from kvctl.tui.dialogs import Confirm, Form, Message

if TYPE_CHECKING:
    from kvctl.tui.app import Console

READ_ONLY = "! read-only: w makes it writable"
PROVE = "KV-API-003"  # the password once more
FULL = "!! not sent: too many questions are without an answer"


class Changing:
    """`account`: who signed in, and may give the password again."""

    def __init__(self, app: Console, account: str | None) -> None:
        self._app, self.account = app, account

    def start(self, key: str) -> None:
        """What this key changes on this page, if anything."""
        docs = self._app.chosen()
        change = next((one for one in self._app.offered() if one.key == key), None)
        if change is None:
            self._app.notice("! nothing here for this key: ? lists them")
        elif self._app.read_only:
            self._app.notice(READ_ONLY)
        elif docs:
            self._begin(change, docs if change.many else docs[:1])

    def _begin(self, change: Change, docs: Sequence[Doc]) -> None:
        if change.fields is None:
            self._look(change, docs, {})
            return

        def filled(given: dict[str, str] | None) -> None:
            if given is not None:
                self._look(change, docs, given)

        self._app.push_screen(Form(change.name, change.fields(docs[0])), filled)

    def _look(self, change: Change, docs: Sequence[Doc], given: Given) -> None:
        self._put(f"asking what {change.name} would do", lambda ask: change.propose(ask, docs, given), self._agree)

    def _agree(self, proposed: Proposed) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self._put("sent, no answer yet", proposed.do, self._made)
            else:
                self._app.notice("nothing was changed")

        self._app.push_screen(Confirm(proposed.text), answered)

    def _made(self, said: str) -> None:
        if "\n" in said or "!!" in said:
            self._app.push_screen(Message(said))
        self._app.notice(said.split("\n")[0])
        self._app.again()

    def _put(self, notice: str, question: Callable[[Ask], Any], then: Callable[[Any], None]) -> None:
        def came(answers: Sequence[Answer]) -> None:
            answer = answers[0]
            if answer.code == PROVE and self.account is not None:
                self._prove(notice, question, then)
            elif answer.trouble:
                self._app.notice(f"!! {answer.trouble}")
                self._app.push_screen(Message(f"!! {answer.trouble}" + (f"\n\n{answer.fix}" if answer.fix else "")))
            else:
                self._app.notice("")
                then(answer.value)

        self._app.notice(notice if self._app.put(came, question) else FULL)

    def _prove(self, notice: str, question: Callable[[Ask], Any], then: Callable[[Any], None]) -> None:
        client = self._app.client
        assert isinstance(client, Http)

        def again(_: None) -> None:
            self._put(notice, question, then)

        def filled(given: dict[str, str] | None) -> None:
            if given is not None:
                self._put("proving it", lambda ask: client.confirm(given["password"]), again)

        field = Field("password", f"password of {self.account}", secret=True)
        self._app.push_screen(Form("this needs your password once more", (field,)), filled)

    def sign_in(self) -> None:
        """As who signed in before, or as whoever gives a name and a password."""
        client = self._app.client
        fields = [] if self.account else [Field("name", "name")]
        fields.append(Field("password", "password", secret=True))

        def filled(given: dict[str, str] | None) -> None:
            if given is not None:
                name = self.account or given["name"]
                self._put("signing in", lambda ask: sign_in(client, name, given["password"]), lambda _: self._is(name))

        self._app.push_screen(Form(f"sign in as {self.account}" if self.account else "sign in", fields), filled)

    def _is(self, name: str) -> None:
        self.account = self._app.who = name
        self._app.again()
