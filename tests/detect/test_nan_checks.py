"""A framework's check for non-finite values: one node that fails it is a suspect, a whole job is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.detect.local_values import detect as local_values
from aiops.ingest import open_case
from aiops.model.finding import Finding

CHECK = (
    "[rank{r}]: RuntimeError: Rank {r}, node n{n}, device {d}, iteration {step}: Unexpected result nan (message='found NaN in"
    " local grad norm for bucket #0 in backward pass before data-parallel communication collective')"
)
INIT = "n{n}:4{r:03d}:5{r:03d} [{d}] NCCL INFO comm 0x1 rank {r} nranks 16 cudaDev {d} busId {d}000 - Init COMPLETE"


def check_of(tmp_path: Path, failing: list[tuple[int, int]]) -> Finding:
    lines = [INIT.format(r=r, n=r // 8, d=r % 8) for r in range(16)]
    lines += [CHECK.format(r=r, n=r // 8, d=r % 8, step=step) for r, step in failing]
    (tmp_path / "out.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_case([tmp_path], Settings()) as case:
        (found,) = local_values(case, load_catalog())
    return found


def test_one_rank_is_named_with_its_gpu(tmp_path: Path) -> None:
    found = check_of(tmp_path, [(11, 812)])
    assert (found.fields["single"], found.node, found.rank, found.gpu) == (True, "n1", 11, 3)


def test_ranks_of_one_node_name_the_node_alone(tmp_path: Path) -> None:
    found = check_of(tmp_path, [(8, 812), (9, 812)])
    assert (found.fields["single"], found.node, found.rank, found.gpu) == (True, "n1", None, None)


@pytest.mark.parametrize("ranks", [[3, 11], list(range(16))])
def test_ranks_of_several_nodes_blame_none_of_them(tmp_path: Path, ranks: list[int]) -> None:
    found = check_of(tmp_path, [(r, 812) for r in ranks])
    assert (found.fields["single"], found.node, found.rank) == (False, None, None)


def test_ranks_that_fail_later_do_not_count(tmp_path: Path) -> None:
    found = check_of(tmp_path, [(3, 813), (11, 812)])
    assert (found.fields["single"], found.node, found.rank) == (True, "n1", 11)
