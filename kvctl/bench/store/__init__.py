"""The store against plain sockets, memory, disk and other stores: one table from one interleaved run."""
