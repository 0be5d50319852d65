"""Parsers of what switches say about the lossless class, one module a network operating system."""

from __future__ import annotations
