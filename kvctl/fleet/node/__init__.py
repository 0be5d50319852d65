"""kvnoded: keeps a node's owned network class, remembers flaps and drift, serves metrics and facts.

Runs on the node's own Python (3.9 or newer) from one archive; see `bundle`.
"""
