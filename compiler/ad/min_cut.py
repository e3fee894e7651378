"""Compute a minimum cut of a small network by shortest augmenting paths.

Source: J. Edmonds and R. M. Karp, Theoretical improvements in algorithmic efficiency for network flow problems, 1972.
"""

from __future__ import annotations

from collections import deque

NEVER = 1 << 60
"""Capacity of an edge that no cut may take."""


class Network:
    """Represent a flow network with edge capacities, whose nodes are numbered from 0.

    Attributes:
        edges: For each node, the numbers of the edges that leave it.
        targets: For each edge, the node where it ends.
        left: For each edge, the capacity that is left. The reverse of edge e has the number e ^ 1.
    """

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(nodes)]
        self.targets: list[int] = []
        self.left: list[int] = []

    def add(self, source: int, target: int, capacity: int) -> None:
        """Add an edge from `source` to `target`; `capacity` is the cost of cutting it."""
        for a, b, room in ((source, target, capacity), (target, source, 0)):
            self.edges[a].append(len(self.targets))
            self.targets.append(b)
            self.left.append(room)

    def source_side(self, source: int, sink: int) -> set[int]:
        """Return the smallest set of nodes that is the source's side of a minimum cut."""
        while True:
            came = self._search(source, sink)
            if sink not in came:
                return set(came)
            self._augment(came, source, sink)

    def _search(self, source: int, sink: int) -> dict[int, int]:
        """Return the nodes reachable over edges with spare capacity, each with the edge that reached it."""
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
        """Send as much flow as possible along the path that the search recorded in `came`."""
        path, node = [], sink
        while node != source:
            path.append(came[node])
            node = self.targets[came[node] ^ 1]
        room = min(self.left[edge] for edge in path)
        for edge in path:
            self.left[edge] -= room
            self.left[edge ^ 1] += room
