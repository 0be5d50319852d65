"""The console's pages as data, a module for each noun: which operations each shows, and which it offers."""

from kvctl.api.menu import Page
from kvctl.api.screens import (
    access,
    approvals,
    audit,
    erasure,
    fleet,
    moves,
    packs,
    posture,
    residency,
    retention,
    tenants,
)

PAGES: tuple[Page, ...] = (
    *posture.PAGES,
    *fleet.PAGES,
    *tenants.PAGES,
    *residency.PAGES,
    *retention.PAGES,
    *erasure.PAGES,
    *moves.PAGES,
    *approvals.PAGES,
    *audit.PAGES,
    *packs.PAGES,
    *access.PAGES,
)
