"""The reference pages leave nothing out: every metric, and every label and annotation of ours, stands in its table."""

from __future__ import annotations

import re
from pathlib import Path

from foresail.kube.objects import values as kubernetes_values
from foresail.live.scheduler.metrics import Metrics
from foresail.live.telemetry.metrics import TelemetryMetrics

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"


def first_cells(page: str) -> list[str]:
    """The first column of every table of a page."""
    return re.findall(r"^\| (.+?) \|", (REFERENCE / page).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_of_metrics_lists_every_metric_with_its_labels():
    rows = re.findall(r"^\| `(\w+)` \| (\w+)[^|]*\|([^|]*)\|", (REFERENCE / "metrics.md").read_text(), re.MULTILINE)
    shown = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    metrics = Metrics("foresail")
    TelemetryMetrics(metrics.registry)
    families = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in metrics.registry.collect()
    }
    assert {name: kind for name, (kind, _) in shown.items()} == families
    for line in metrics.text().decode().splitlines():
        found = re.match(r"(\w+)\{(.*)\}", line)
        if found:
            name = re.sub(r"_(bucket|count|sum)$", "", found[1])
            assert set(re.findall(r"(\w+)=", found[2])) - {"le"} == shown[name][1], line


def test_the_page_of_labels_lists_every_name_that_objects_carry_for_us():
    listed = set(re.findall(r"`([^`: ]+)[^`]*`", " ".join(first_cells("labels.md"))))
    names = {value for value in vars(kubernetes_values).values() if isinstance(value, str) and "/" in value}
    read = {name for name in names if re.fullmatch(r"[\w.-]+/[\w.-]+", name)}
    assert "foresail.dev/gpu-devices" in read
    assert read - listed == set()
