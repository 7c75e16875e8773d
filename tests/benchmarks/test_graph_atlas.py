"""graph_atlas: every connected graph once, with answers that brute force and published counts confirm."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Environments
from tests.benchmarks.shipped import run_prepare

Edges = list[list[int]]


def answers(
    checkout: Path, python: Path, invariant: str, vertices: int | tuple[int, int]
) -> list[tuple[Edges, int]]:
    """Prepare the graphs with so many vertices. Returns: edges and answer of each."""
    low, high = (vertices, vertices) if isinstance(vertices, int) else vertices
    args: dict[str, Any] = {"invariant": invariant, "min_vertices": low, "max_vertices": high}
    rows = run_prepare(checkout, python, "graph_atlas", **args).rows
    assert all(row["verifier_metadata"]["invariant"] == invariant for row in rows)
    return [(row["verifier_metadata"]["edges"], int(row["expected_answer"])) for row in rows]


def joins_all(vertices: int, edges: Any) -> bool:
    """Whether these edges connect all the vertices."""
    reached = {0}
    for _ in range(vertices):
        reached |= {end for edge in edges if reached & set(edge) for end in edge}
    return len(reached) == vertices


@pytest.mark.parametrize("vertices", [4, 5, 6])
def test_spanning_trees_are_those_that_can_be_listed(
    vertices: int, checkout: Path, environments: Environments
) -> None:
    for edges, answer in answers(checkout, environments("graph_atlas"), "spanning_trees", vertices):
        if len(edges) > 11:
            continue  # as many again as the others together; Cayley's formula below has the densest of all
        listed = sum(joins_all(vertices, tree) for tree in itertools.combinations(edges, vertices - 1))
        assert answer == listed, edges


def test_spanning_trees_of_trees_cycles_and_complete_graphs(
    checkout: Path, environments: Environments
) -> None:
    found = answers(checkout, environments("graph_atlas"), "spanning_trees", 7)
    # Trees with 7 vertices (OEIS A000055), the cycle, and Cayley's 7^5 for the complete graph.
    assert sum(answer == 1 for _, answer in found) == 11
    (cycle,) = (
        answer
        for edges, answer in found
        if len(edges) == 7 and set(Counter(itertools.chain(*edges)).values()) == {2}
    )
    (complete,) = (answer for edges, answer in found if len(edges) == 21)
    assert (cycle, complete) == (7, 7**5)


@pytest.mark.parametrize("vertices", [4, 5])
def test_chromatic_numbers_are_those_of_trying_every_colouring(
    vertices: int, checkout: Path, environments: Environments
) -> None:
    for edges, answer in answers(checkout, environments("graph_atlas"), "chromatic_number", vertices):
        fewest = min(
            len(set(colours))
            for colours in itertools.product(range(vertices), repeat=vertices)
            if all(colours[one] != colours[other] for one, other in edges)
        )
        assert answer == fewest, edges


def test_graphs_by_chromatic_number_are_as_many_as_published(
    checkout: Path, environments: Environments
) -> None:
    found = answers(checkout, environments("graph_atlas"), "chromatic_number", 7)
    counts = Counter(answer for _, answer in found)
    # Connected graphs with 7 vertices: 853 (OEIS A001349), bipartite 44 (A005142), one that needs all 7 colours.
    assert sum(counts.values()) == 853
    assert counts[2] == 44
    assert counts[7] == 1
    assert min(counts) == 2


@pytest.mark.parametrize("vertices", [2, 5, 6])
def test_diameters_are_those_of_matrix_powers(
    vertices: int, checkout: Path, environments: Environments
) -> None:
    for edges, answer in answers(checkout, environments("graph_atlas"), "diameter", vertices):
        near = (
            {(vertex, vertex) for vertex in range(vertices)}
            | {(a, b) for a, b in edges}
            | {(b, a) for a, b in edges}
        )
        reach, steps = {(vertex, vertex) for vertex in range(vertices)}, 0
        while len(reach) < vertices**2:
            reach = {(a, c) for a, b in reach for other, c in near if b == other}
            steps += 1
        assert answer == steps, edges


def test_every_connected_graph_is_there_once(checkout: Path, environments: Environments) -> None:
    found = answers(checkout, environments("graph_atlas"), "diameter", (1, 7))
    sizes = Counter(max(itertools.chain(*edges), default=0) + 1 for edges, _ in found)
    assert [sizes[size] for size in range(1, 8)] == [1, 1, 2, 6, 21, 112, 853]  # OEIS A001349
    forms = {
        min(
            tuple(sorted(tuple(sorted((renamed[a], renamed[b]))) for a, b in edges))
            for renamed in itertools.permutations(range(5))
        )
        for edges, _ in found
        if max(itertools.chain(*edges), default=0) == 4
    }
    assert len(forms) == 21


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"invariant": "girth"},
            "`invariant` is 'girth'; there are spanning_trees, chromatic_number, diameter.",
        ),
        ({"max_vertices": 8}, "`min_vertices` is 6 and `max_vertices` 8; the atlas goes from 1 to 7."),
        (
            {"min_vertices": 5, "max_vertices": 4},
            "`min_vertices` is 5 and `max_vertices` 4; the atlas goes from 1 to 7.",
        ),
    ],
)
def test_an_argument_out_of_range_is_an_error(
    args: dict[str, Any], message: str, checkout: Path, environments: Environments
) -> None:
    assert (
        run_prepare(checkout, environments("graph_atlas"), "graph_atlas", **args).error
        == f"ValueError: {message}"
    )
