"""kvctl: fleet, data and governance of a shared KV-cache tier."""

__version__ = "0.1.0"
