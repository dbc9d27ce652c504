"""The chart's settings: all of them explained, and nothing else taken."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from tests.deploy.charts import CHART, helm, needs_helm


@needs_helm
def test_helm_finds_no_fault():
    ran = helm(
        "lint",
        "--strict",
        str(CHART),
        "--set",
        "extender.enabled=true,control.enabled=true,serviceMonitor.enabled=true",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_helm
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("replicas=3", "additional properties 'replicas' not allowed"),
        ("scheduler.port=70000", "scheduler/port"),
        ("scheduler.name=Not A Name", "scheduler/name"),
        ("image.pullPolicy=Sometimes", "image/pullPolicy"),
        ("token.secretName=", "token/secretName"),
        ("tls.secretName=", "tls/secretName"),
        ("image.digest=sha256:12", "image/digest"),
        ("telemetry.cpu.sources={cadvisor}", "telemetry/cpu/sources/0"),
        ("telemetry.progress.claims[0].namespace=team", "missing property 'claimName'"),
        ("control.controllers[0]=", "control/controllers/0"),
        ("control.enabled=true,telemetry.cpu.sources={prometheus}", "give its URL in telemetry.cpu.prometheus.url"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(value, told):
    ran = helm("template", "foresail", str(CHART), "--set", value)
    assert ran.returncode != 0
    assert told in ran.stderr


def test_every_value_is_in_the_schema_and_has_a_comment():
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(schema["properties"]) - {"global"} == set(values)
    for name, value in values.items():
        if "properties" in schema["properties"][name]:
            assert set(schema["properties"][name]["properties"]) == set(value), name
    # A key follows a comment, or stands right below a key of its own level that does.
    above = ""
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").split("profile: |")[0].splitlines():
        if re.match(r"\s+\w+:", line):
            assert above.lstrip().startswith("#"), line
        above = line
