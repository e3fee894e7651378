"""A minimum cut of a small network, by shortest augmenting paths (Edmonds and Karp 1972)."""

from __future__ import annotations

from collections import deque

NEVER = 1 << 60
"""The capacity of an edge that no cut may take."""


class Network:
    """Nodes are numbered from 0. Edges are stored in pairs, each beside its reverse."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(nodes)]
        self.targets: list[int] = []
        self.left: list[int] = []

    def add(self, source: int, target: int, capacity: int) -> None:
        """An edge with what it costs to cut it."""
        for a, b, room in ((source, target, capacity), (target, source, 0)):
            self.edges[a].append(len(self.targets))
            self.targets.append(b)
            self.left.append(room)

    def source_side(self, source: int, sink: int) -> set[int]:
        """The nodes on the source's side of the least cut; the smallest such set."""
        while True:
            came = self._search(source, sink)
            if sink not in came:
                return set(came)
            self._augment(came, source, sink)

    def _search(self, source: int, sink: int) -> dict[int, int]:
        """Nodes reached through edges with room, each with the edge by which it was reached."""
        came, pending = {source: -1}, deque([source])
        while pending:
            for edge in self.edges[pending.popleft()]:
                target = self.targets[edge]
                if self.left[edge] and target not in came:
                    came[target] = edge
                    if target == sink:
                        return came
                    pending.append(target)
        return came

    def _augment(self, came: dict[int, int], source: int, sink: int) -> None:
        path, node = [], sink
        while node != source:
            path.append(came[node])
            node = self.targets[came[node] ^ 1]
        room = min(self.left[edge] for edge in path)
        for edge in path:
            self.left[edge] -= room
            self.left[edge ^ 1] += room
