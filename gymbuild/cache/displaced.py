"""What a person may have made is kept before it is replaced: under `.cache/displaced/`, by path and time."""

from __future__ import annotations

import os
import time

from gymbuild.system.files import move
from gymbuild.system.paths import Checkout


def displace(checkout: Checkout, path: str, name: str | None = None) -> str:
    """Move what a person may have made out of the way.

    Args:
        checkout: whose cache.
        path: relative to the checkout, or absolute.
        name: the path that it had, where it has been moved already.

    Returns:
        where it is now, relative to the checkout.

    Raises:
        OSError: it cannot be moved; it is as it was.
    """
    named = checkout.relative(name or path).lstrip("/") + time.strftime(".%Y%m%d-%H%M%S")
    target, count = checkout.cached("displaced", named), 2
    while os.path.lexists(target):
        target, count = checkout.cached("displaced", f"{named}-{count}"), count + 1
    os.makedirs(os.path.dirname(target), exist_ok=True)
    move(checkout.absolute(path), target)
    return checkout.relative(target)
