"""Answers, cells and comparisons as a run gives them, made by hand."""

from types import SimpleNamespace

from kvctl.bench.ttft.between import Between, Phase, Traffic
from kvctl.bench.ttft.cells import Cell, Group, Way
from kvctl.bench.ttft.degraded import Pair
from kvctl.bench.ttft.figures import Book, Sample
from kvctl.bench.ttft.restore import Kind, Restores, Timed
from kvctl.bench.ttft.run import SCHEMA
from kvctl.fleet.lab.serving_demo import Answer

GROUP = Group(1024, 1)


def answer(first=0.1, *, cached=0, output=(1, 2), tokens=1024):
    return Answer(first, (0.04, 0.05), tokens, cached, output)


def sample(*answers, turn=0, **more):
    return Sample(turn, answers or (answer(),), **more)


def book(*ways, group=GROUP):
    return Book(frozenset(Cell(way, group) for way in ways))


def restores(**seconds):
    made = Restores(8192, SimpleNamespace())
    for kind, values in seconds.items():
        made.timed += [Timed(Kind(kind), 0, value) for value in values]
    made.raw = [2e9, 4e9, 3e9]
    return made


def between(*windows, traffic=Traffic.BOTH):
    """p99 of windows without and with in turn, without at both ends."""
    made = Between(SimpleNamespace(), SimpleNamespace(), 200)
    made.phases = [Phase(traffic, at % 2 == 1, 0.03, value, 400, 10, 5, 0) for at, value in enumerate(windows)]
    return made


def pair(way, degraded, recompute, tokens=4096):
    return Pair(way, tokens, degraded, recompute)


def document(cells, rows=(), **more):
    return {
        "schema": SCHEMA,
        "conditions": {"date": "2026-01-01T00:00:00Z", "processor": "2 x any", "versions": {"python": "3.11"}},
        "rows": list(rows),
        "cells": list(cells),
        "failing": [],
        "left_out": {},
        "samples": {},
        **more,
    }


def measured(way, group, first, between=(0.03, 0.05)):
    """A cell of a document."""
    return {
        "name": Cell(way, group).name,
        "way": str(way),
        "tokens": group.tokens,
        "sessions": group.sessions,
        "status": "measured",
        "first": {"p50": first[0], "p99": first[1], "count": 3},
        "between": {"p50": between[0], "p99": between[1], "count": 45},
        "restored": 1.0 if way is not Way.MISS else 0.0,
        "reasons": {},
        "rounds": 3,
        "written": None,
    }
