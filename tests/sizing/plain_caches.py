"""Cache policies as plain lists, written from their papers to compare with. Slow on purpose: nothing here is clever."""

from bisect import bisect_right


class Lru:
    def __init__(self, capacity):
        self.capacity, self.keys = capacity, []  # oldest use first

    def __contains__(self, key):
        return key in self.keys

    def touch(self, key):
        self.keys.remove(key)
        self.keys.append(key)

    def add(self, key):
        if len(self.keys) == self.capacity:
            self.keys.pop(0)
        self.keys.append(key)


class Fifo(Lru):
    def touch(self, key):
        pass


class Lfu(Lru):
    def __init__(self, capacity):
        super().__init__(capacity)
        self.uses = {}

    def touch(self, key):
        super().touch(key)
        self.uses[key] += 1

    def add(self, key):
        if len(self.keys) == self.capacity:
            fewest = min(self.uses[k] for k in self.keys)
            self.keys.remove(next(k for k in self.keys if self.uses[k] == fewest))
        self.keys.append(key)
        self.uses[key] = 1


class Sieve:
    def __init__(self, capacity):
        self.capacity, self.keys, self.visited, self.hand = capacity, [], set(), 0  # oldest first

    def __contains__(self, key):
        return key in self.keys

    def touch(self, key):
        self.visited.add(key)

    def add(self, key):
        if len(self.keys) == self.capacity:
            while self.keys[self.hand] in self.visited:
                self.visited.discard(self.keys[self.hand])
                self.hand = (self.hand + 1) % len(self.keys)
            del self.keys[self.hand]
            self.hand %= max(1, len(self.keys))  # behind the newest comes the oldest, not what is inserted next
        self.keys.append(key)


class S3Fifo:
    def __init__(self, capacity):
        self.capacity, self.small_size = capacity, max(1, capacity // 10)
        self.small, self.main, self.ghost, self.uses = [], [], [], {}

    def __contains__(self, key):
        return key in self.uses

    def touch(self, key):
        self.uses[key] = min(3, self.uses[key] + 1)

    def add(self, key):
        if len(self.uses) == self.capacity:
            self.evict()
        if key in self.ghost:
            self.ghost.remove(key)
            self.main.append(key)
        else:
            self.small.append(key)
        self.uses[key] = 0

    def evict(self):
        if len(self.small) >= self.small_size or not self.main:
            while self.small:
                key = self.small.pop(0)
                if self.uses[key] <= 1:
                    del self.uses[key]
                    self.ghost = [*self.ghost, key][-max(1, self.capacity - self.small_size) :]
                    return
                self.uses[key] = 0
                self.main.append(key)
        while self.uses[self.main[0]]:
            key = self.main.pop(0)
            self.uses[key] -= 1
            self.main.append(key)
        del self.uses[self.main.pop(0)]


PLAIN = {"lru": Lru, "fifo": Fifo, "lfu": Lfu, "sieve": Sieve, "s3fifo": S3Fifo}


def replay(requests, cache, second_touch=False):
    """(hits, writes): a block hits when it and all before it are there; then every block is used or added, in order."""
    hits = writes = 0
    missed = set()
    for blocks in requests:
        there = [block in cache for block in blocks]
        hits += len(blocks) if all(there) else there.index(False)
        for block in blocks:
            if block in cache:
                cache.touch(block)
                continue
            if not second_touch or block in missed:
                cache.add(block)
                writes += 1
            missed.add(block)
    return hits, writes


def furthest_next_use(requests, capacity):
    """Hits of the offline bound: with one block too many, the one that is needed last goes."""
    sequence = [block for blocks in requests for block in blocks]
    places = {}
    for at, block in enumerate(sequence):
        places.setdefault(block, []).append(at)

    def next_use(block):
        later = places[block][bisect_right(places[block], at) :]
        return later[0] if later else len(sequence)

    cache, hits, at = set(), 0, -1
    for blocks in requests:
        lead = True
        for block in blocks:
            at += 1
            lead = lead and block in cache
            hits += lead
            cache.add(block)
            if len(cache) > capacity:
                cache.remove(max(cache, key=next_use))
    return hits
