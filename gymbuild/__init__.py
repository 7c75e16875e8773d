"""make for LLM benchmarks: environments, prepared datasets and reproducible plans from benchmark configs."""

from __future__ import annotations

from gymbuild.system.version import __version__

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gymbuild.system.errors import PreparationFailedError
    from gymbuild.tasks.api import (
        PrepareBenchmarkConfig,
        datasets_to_prepare,
        gym_relative_path,
        plan_for_config,
        prepare_datasets,
    )

__all__ = [
    "PreparationFailedError",
    "PrepareBenchmarkConfig",
    "__version__",
    "datasets_to_prepare",
    "gym_relative_path",
    "plan_for_config",
    "prepare_datasets",
]


def __getattr__(name: str) -> Any:
    # lazy on purpose: a start that finds nothing to do imports none of this
    if name == "PreparationFailedError":
        from gymbuild.system.errors import PreparationFailedError

        return PreparationFailedError
    if name in __all__:
        from gymbuild.tasks import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
