"""Host lists: what Slurm writes must come back as the names it stands for, and hostile text must end in an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiops.ingest.hostlist import HostlistError, expand_hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("", []),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[1,3,5-6],login1", ["n1", "n3", "n5", "n6", "login1"]),
        ("r[1-2]-n[01-02]", ["r1-n01", "r1-n02", "r2-n01", "r2-n02"]),
        ("r[1-2]-n[01-02].gpu", ["r1-n01.gpu", "r1-n02.gpu", "r2-n01.gpu", "r2-n02.gpu"]),
        ("a[1-2[0-1]]", ["a1-20", "a1-21"]),
        ("a[b[1-2],c3]", ["ab1", "ab2", "ac3"]),
        (" n1 , n2,n1", ["n1", "n2"]),
    ],
)
def test_expands_what_slurm_writes(text: str, names: list[str]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-3",
        "n1-3]",
        "n[]",
        "n[5-3]",
        "n[1-200000]",
        "n[1-1000]x[1-1000]",
        "n[" * 40 + "1" + "]" * 40,
        "n[0-999999999999999999]",
        "n[,]",
    ],
)
def test_refuses_broken_and_excessive_lists(text: str) -> None:
    with pytest.raises(HostlistError):
        expand_hostlist(text)


def test_limit_counts_names_of_all_items() -> None:
    assert len(expand_hostlist("a[1-50000],b[1-50000]")) == 100_000
    with pytest.raises(HostlistError):
        expand_hostlist("a[1-50000],b[1-50000],c1")


_PREFIX = st.text("abcdefgh-", min_size=1, max_size=6)


@given(_PREFIX, st.sets(st.integers(0, 999), min_size=1, max_size=40), st.integers(1, 4))
def test_a_folded_list_comes_back(prefix: str, numbers: set[int], width: int) -> None:
    names = [f"{prefix}{number:0{width}d}" for number in sorted(numbers)]
    runs: list[list[int]] = []
    for number in sorted(numbers):
        # Slurm folds only numbers of equal width into one range.
        same = runs and runs[-1][-1] == number - 1 and len(f"{number - 1:0{width}d}") == len(f"{number:0{width}d}")
        if same:
            runs[-1].append(number)
        else:
            runs.append([number])
    folded = ",".join(
        f"{run[0]:0{width}d}-{run[-1]:0{width}d}" if len(run) > 1 else f"{run[0]:0{width}d}" for run in runs
    )
    assert expand_hostlist(f"{prefix}[{folded}]") == names


@given(_PREFIX, st.integers(0, 30), st.integers(0, 30), _PREFIX, st.integers(0, 30), st.integers(0, 30))
def test_two_groups_give_every_pair(one: str, a: int, b: int, two: str, c: int, d: int) -> None:
    text = f"{one}[{a}-{a + b}]{two}[{c}-{c + d}]"
    names = expand_hostlist(text)
    assert len(names) == (b + 1) * (d + 1)
    assert {f"{one}{i}{two}{j}" for i in range(a, a + b + 1) for j in range(c, c + d + 1)} == set(names)


@given(st.text("n01[],- x", max_size=30))
def test_any_text_gives_names_or_the_error(text: str) -> None:
    try:
        names = expand_hostlist(text, limit=1000)
    except HostlistError:
        return
    assert len(names) <= 1000 and len(set(names)) == len(names)
    assert not any("[" in name or "]" in name for name in names)
