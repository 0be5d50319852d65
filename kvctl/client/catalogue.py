"""The catalogue of checks, for faces that show it."""


def markdown() -> str:
    from kvctl.fleet.checks.catalogue import markdown as made

    return made()
