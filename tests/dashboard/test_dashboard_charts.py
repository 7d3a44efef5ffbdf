"""Charts are pure functions of a report: their rows, windows and specifications."""

from __future__ import annotations

import json

from report import samples

from aiops.model.report import FindingItem, Report, TimelineEntry
from dashboards.charts import lanes, metrics, timeline

HOSTILE = '</script><img src=x onerror=alert(1)> \']; datum["constructor"] \x1b[31m\u202e'


def incident(report: Report):
    return report.incidents[0].model_copy(deep=True)


def test_lanes_put_causes_first_and_keep_delays() -> None:
    rows = lanes.points(incident(samples.off_bus()))
    assert [row["ms"] for row in rows] == sorted(row["ms"] for row in rows)
    by_order = sorted({(row["order"], row["lane"]) for row in rows})
    assert by_order[0] == (0, "gpu-r07-n03 GPU 5")
    xid = next(row for row in rows if row["text"].startswith("Xid 79"))
    assert (xid["role"], xid["clock"], xid["after"], xid["evidence"]) == ("cause", "03:14:07.412", "+2 min 6 s", "e2")
    assert lanes.undated(incident(samples.off_bus())) == ["gpu-r07-n03: node not rebooted since 2026-11-02"]


def test_windows() -> None:
    case = incident(samples.off_bus())
    rows = lanes.points(case)
    whole, cause_on, seconds = (
        lanes.window(rows, name) for name in ("Whole case", "From the cause on", "First seconds")
    )
    assert whole[0] < rows[0]["ms"] and whole[1] > rows[-1]["ms"]
    first_cause = lanes.first_cause_ms(case)
    assert first_cause is not None
    assert rows[0]["ms"] < cause_on[0] < first_cause
    inside = [row["text"] for row in rows if seconds[0] <= row["ms"] <= seconds[1]]
    assert inside[0].startswith("Xid 79") and "CUDA error" in inside[1], "the order of cause and first effect is seen"


def test_texts_on_a_lane_do_not_overlap() -> None:
    case = incident(samples.off_bus())
    rows = lanes.points(case)
    ends = lanes.window(rows, "From the cause on")
    placed: dict[str, list[tuple[float, float]]] = {}
    for row in lanes.labels(rows, ends):
        x = (row["ms"] - ends[0]) / (ends[1] - ends[0]) * 560
        width = len(row["label"]) * 6.2
        low, high = (x, x + width) if row["side"] == "right" else (x - width, x)
        assert all(high <= a or low >= b for a, b in placed.get(row["lane"], []))
        placed.setdefault(row["lane"], []).append((low, high))
    assert any(row["role"] == "cause" for row in lanes.labels(rows, ends))


def test_a_long_text_at_a_single_time_is_shortened() -> None:
    row = {"ms": 0, "lane": "n1", "order": 0, "role": "cause", "text": "x" * 200}
    (label,) = lanes.labels([row], (-500, 500))
    assert label["side"] == "right" and label["label"].endswith("…") and len(label["label"]) * 6.2 < 280


def test_spans_are_on_the_lane_of_their_entity_only() -> None:
    case = incident(samples.off_bus())
    case.findings = [
        FindingItem(
            id="f1",
            sign="s",
            text="t",
            role="root",
            severity="error",
            entity="rank 2",
            first="2026-11-28T03:14:00Z",
            last="2026-11-28T03:15:00Z",
        ),
        FindingItem(
            id="f2",
            sign="s",
            text="t",
            role="echo",
            severity="error",
            entity="rank 21 (pid 9)",
            first="2026-11-28T03:14:00Z",
            last="2026-11-28T03:15:00Z",
        ),
    ]
    assert [(span["lane"], span["role"]) for span in lanes.spans(case)] == [("rank 21", "effect")]


def test_timeline_tells_roles_by_colour_and_shape() -> None:
    drawn = timeline.chart(incident(samples.off_bus()))
    assert drawn is not None
    spec = drawn.to_dict()
    points = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    for channel in ("color", "shape"):
        scale = points["encoding"][channel]["scale"]
        assert scale["domain"] == ["cause", "effect", "context"] and len(set(scale["range"])) == 3
    assert points["encoding"]["x"]["scale"]["type"] == "utc"


def test_nothing_dated_means_no_timeline() -> None:
    case = incident(samples.off_bus())
    case.timeline = [TimelineEntry(ts=None, entity="x", text="y")]
    assert timeline.chart(case) is None


def test_text_of_the_case_is_data_and_never_an_expression() -> None:
    case = incident(samples.off_bus())
    for entry in case.timeline:
        entry.entity, entry.text = HOSTILE, HOSTILE
    drawn = timeline.chart(case)
    assert drawn is not None
    spec = drawn.to_dict()
    values = spec.pop("datasets", None), [layer.pop("data", None) for layer in spec["layer"]]
    assert "onerror" in json.dumps(values)
    assert "onerror" not in json.dumps(spec), "only data may hold text of the case"
    texts = [text for row in lanes.points(case) for text in row.values() if isinstance(text, str)]
    assert not any("\x1b" in text or "\u202e" in text for text in texts)


def test_panels_keep_absent_apart_from_zero() -> None:
    panels = metrics.panels(samples.off_bus().coverage.series)
    assert [panel.title for panel in panels] == ["gpu util", "pcie replay counter", "gpu temp"]
    util = panels[0]
    lost = [row for row in util.rows if row["role"] == "culprit" and row["value"] is None]
    assert len(lost) == 26
    assert [row["clock"] for row in util.rows if row["ms"] in util.gaps[0]][:1] == ["03:14:00"]
    assert len(util.gaps) == 1 and util.gaps[0][1] == max(row["ms"] for row in util.rows)


def test_times_may_be_epoch_seconds() -> None:
    panels = metrics.panels(
        [
            {
                "field": "node_load1",
                "unit": "",
                "entity": "n1",
                "role": "culprit",
                "points": [[1_795_000_000, 1.0], [1_795_000_060, None], [1_795_000_120, 0]],
            },
            {
                "field": "node_load1",
                "unit": "",
                "entity": "peers",
                "role": "peers_median",
                "points": [[1_795_000_000, 1.0], [1_795_000_060, 1.0], [1_795_000_120, 1.0]],
            },
            {"field": "gone", "unit": "", "entity": "n1", "role": "culprit", "points": [[1.0, None]]},
        ]
    )
    assert [panel.field for panel in panels] == ["node_load1"], "a field without samples has no panel"
    assert panels[0].gaps == [(1_795_000_000_000, 1_795_000_120_000)]
    spec = metrics.chart(panels[0], 1_795_000_060_000).to_dict()
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["rect", "line", "rule"]
