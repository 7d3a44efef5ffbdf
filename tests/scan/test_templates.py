"""Lines that no rule knows are found, grouped, and ranked by how unusual they are."""

from __future__ import annotations

from pathlib import Path

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.detect.unknown_lines import detect
from aiops.ingest import open_case
from aiops.scan import make_scanner
from aiops.scan.templates import unknown_templates

CATALOG = load_catalog()
XID = "Aug  1 08:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def test_lines_of_one_kind_are_one_template_and_known_lines_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = [f"ERROR flux {n} of widget w{n:03d} failed badly" for n in range(50)]
    path.write_text("\n".join([*lines, XID, "INFO nothing failed", "all is well"]) + "\n")
    [template] = unknown_templates([(path, path.stat().st_size)], make_scanner(CATALOG))
    assert template.count == 50
    assert template.words == ["ERROR", "flux", "<*>", "of", "widget", "<*>", "failed", "badly"]
    assert (template.file, template.offset) == (0, 0)


def test_end_of_a_large_file_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("step=1 loss=2.5\n" * 100_000 + "FATAL the gyroscope is unhinged\n")
    [template] = unknown_templates([(path, path.stat().st_size)], make_scanner(CATALOG), sample=1)
    with path.open("rb") as handle:
        handle.seek(template.offset)
        assert handle.readline() == b"FATAL the gyroscope is unhinged\n"


def test_rare_line_near_the_fault_comes_first_and_its_evidence_is_the_line(tmp_path: Path) -> None:
    log = tmp_path / "rank_3.log"
    log.write_text(
        "".join(f"2026-08-01 06:00:{n:02d},000 ERROR [rank 3] poller.py: probe {n} was refused\n" for n in range(60))
        + "2026-08-01 07:59:58,000 ERROR [rank 3] gyro.py: the gyroscope is unhinged\n"
        + "2026-08-01 08:00:00,000 ERROR [rank 3] RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
        + "2026-08-01 08:00:00,100 INFO [rank 3] step=3 loss=2.5\n"
    )
    with open_case([tmp_path], Settings()) as case:
        found = detect(case, CATALOG)
        assert [finding.evidence[0].line for finding in found] == [61, 1]
        assert "gyroscope" in found[0].text
        assert {(finding.sign, finding.role.value, finding.rank) for finding in found} == {
            ("log.unusual", "context", 3)
        }
