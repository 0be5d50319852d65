"""Sealed chunks in append-only segment files on local mounts; docs/store-format.md shows the files byte by byte."""
