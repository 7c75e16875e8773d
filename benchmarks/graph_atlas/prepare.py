"""Graph atlas: one number to find out about each small connected graph, given as a list of edges.

The graphs come with the package `networkx`: all 1253 with up to seven vertices, in the order of Read and Wilson's "An Atlas
of Graphs" (1998). The answers are computed here, exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import networkx

OUTPUT_FPATH = Path(__file__).parent / "data" / "graph_atlas_benchmark.jsonl"

MAX_VERTICES = 7
"""Vertices of the largest graphs in the atlas."""


def prepare(
    invariant: str = "spanning_trees", min_vertices: int = 6, max_vertices: int = MAX_VERTICES
) -> Path:
    """Write one row per connected graph of the atlas, in its order.

    Args:
        invariant: what is asked; one of INVARIANTS.
        min_vertices, max_vertices: the sizes of graphs that are taken, from 1 to MAX_VERTICES.
    Returns: the prepared file.
    Raises: ValueError when an argument is out of its range.
    """
    if invariant not in INVARIANTS:
        raise ValueError(f"`invariant` is {invariant!r}; there are {', '.join(INVARIANTS)}.")
    if not 1 <= min_vertices <= max_vertices <= MAX_VERTICES:
        raise ValueError(
            f"`min_vertices` is {min_vertices} and `max_vertices` {max_vertices}; the atlas goes from 1 to {MAX_VERTICES}."
        )
    question, compute = INVARIANTS[invariant]

    count = 0
    OUTPUT_FPATH.parent.mkdir(parents=True, exist_ok=True)
    with open(OUTPUT_FPATH, "w", encoding="utf-8", newline="\n") as output:
        for number, graph in enumerate(networkx.graph_atlas_g()):
            if not min_vertices <= len(graph) <= max_vertices or not networkx.is_connected(graph):
                continue
            edges = sorted((min(edge), max(edge)) for edge in graph.edges)
            vertices = ", ".join(str(vertex) for vertex in sorted(graph))
            listed = ", ".join(f"{one}-{other}" for one, other in edges) or "none"
            row = {
                "task_id": f"G{number}",
                "question": f"A simple graph has the vertices {vertices} and these edges: {listed}.\n\n{question}",
                "expected_answer": str(compute(len(graph), edges)),
                "verifier_metadata": {"invariant": invariant, "edges": edges},
            }
            output.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
            count += 1
    print(f"{count} graphs, {invariant}, written to {OUTPUT_FPATH.name}")
    return OUTPUT_FPATH


Edges = list[tuple[int, int]]


def spanning_trees(vertex_count: int, edges: Edges) -> int:
    """How many spanning trees a connected graph has: any cofactor of its Laplacian (Kirchhoff, 1847).

    The determinant is taken by Bareiss's elimination, in which every division comes out even.
    """
    laplacian = [[0] * vertex_count for _ in range(vertex_count)]
    for one, other in edges:
        laplacian[one][one] += 1
        laplacian[other][other] += 1
        laplacian[one][other] -= 1
        laplacian[other][one] -= 1
    minor = [row[1:] for row in laplacian[1:]]
    # No pivot is zero: leading minors of a connected graph's reduced Laplacian are all positive.
    divisor = 1
    for pivot in range(len(minor) - 1):
        for row in range(pivot + 1, len(minor)):
            for column in range(pivot + 1, len(minor)):
                product = minor[row][column] * minor[pivot][pivot] - minor[row][pivot] * minor[pivot][column]
                minor[row][column] = product // divisor
        divisor = minor[pivot][pivot]
    return minor[-1][-1] if minor else 1


def chromatic_number(vertex_count: int, edges: Edges) -> int:
    """How few colours do, so that no edge joins two vertices of one colour."""
    earlier: list[list[int]] = [[] for _ in range(vertex_count)]
    for one, other in edges:
        earlier[other].append(one)

    def colourable(colours: list[int], limit: int) -> bool:
        if len(colours) == vertex_count:
            return True
        taken = {colours[vertex] for vertex in earlier[len(colours)]}
        # A colour beyond the first unused one would only rename it.
        choices = range(min(limit, max(colours, default=-1) + 2))
        return any(colour not in taken and colourable([*colours, colour], limit) for colour in choices)

    return next(limit for limit in range(1, vertex_count + 1) if colourable([], limit))


def diameter(vertex_count: int, edges: Edges) -> int:
    """The largest distance between two vertices of a connected graph, in edges."""
    graph = networkx.Graph(edges)
    graph.add_nodes_from(range(vertex_count))
    return int(networkx.diameter(graph))


INVARIANTS: dict[str, tuple[str, Callable[[int, Edges], int]]] = {
    "spanning_trees": ("How many spanning trees does it have?", spanning_trees),
    "chromatic_number": ("What is its chromatic number?", chromatic_number),
    "diameter": (
        "What is its diameter, the largest distance between two vertices, counted in edges?",
        diameter,
    ),
}
"""What can be asked: the question, and the function that answers it."""


if __name__ == "__main__":
    prepare()
