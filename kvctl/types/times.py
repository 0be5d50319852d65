"""Times that people and programs give, as one kind of value."""

from datetime import UTC, datetime


def utc(text: str) -> datetime:
    """An ISO 8601 time in UTC; without a zone it is one already. ValueError for what is none."""
    found = datetime.fromisoformat(text)
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is in no year from 1 to 9999") from error
