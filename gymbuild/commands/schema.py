"""`schema plan|row`: the JSON Schema of a plan file, or of a row of a prepared file."""

from __future__ import annotations

import json
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.config.session import Session


class Schema(GymbuildCommand):
    """Print a JSON Schema."""

    name = "schema"
    doc_purpose = "print the JSON Schema of a plan file or of a row"
    doc_usage = "plan | row"

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the schema that the word names."""
        from gymbuild.plan.schema import plan_schema, row_schema

        schemas = {"plan": plan_schema, "row": row_schema}
        if len(words) != 1 or words[0] not in schemas:
            raise usage_error(self, "say which: plan or row.")
        print(json.dumps(schemas[words[0]](), indent=2, sort_keys=True))
        return 0
