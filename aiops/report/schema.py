"""The JSON Schema of the report, generated from its types."""

from __future__ import annotations

import json

from aiops.model.report import Report


def report_schema() -> str:
    """JSON Schema (2020-12) as indented text with sorted keys."""
    schema = Report.model_json_schema(by_alias=True, mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
