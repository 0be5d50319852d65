import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvctl.connector.threads import handed_over


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_work_is_done_and_its_answer_and_error_come_back() -> None:
    with ThreadPoolExecutor(1) as executor:
        answer = handed_over(executor, lambda: 7)
        assert answer is not None
        assert answer.result(10) == 7
        broken = handed_over(executor, lambda: 1 // 0)
        assert broken is not None
        with pytest.raises(ZeroDivisionError):
            broken.result(10)


def test_a_closed_executor_takes_nothing() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    assert handed_over(executor, lambda: 1) is None


def test_what_no_thread_could_be_started_for_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    with ThreadPoolExecutor(1) as executor:
        with monkeypatch.context() as refusing:
            refusing.setattr(threading.Thread, "start", no_thread)
            assert handed_over(executor, lambda: done.append("given up")) is None
        later = handed_over(executor, lambda: done.append("later"))
        assert later is not None
        later.result(10)
    assert done == ["later"]
