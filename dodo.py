"""doit's entry: every task is derived from the configs under benchmarks/."""

from gymbuild.tasks import DOIT_CONFIG, task_plan, task_prepare, task_validate, task_venv

__all__ = ["DOIT_CONFIG", "task_plan", "task_prepare", "task_validate", "task_venv"]
