"""What every test may rely on: torch where it was promised, and caches of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Compile caches do not notice that an op's contract changed (FACTS section 9): a run must never
# see those of another. Set before any test imports torch, and inherited by subprocesses.
_CACHE = tempfile.TemporaryDirectory(prefix="opscaffold-inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _CACHE.name
# What one test checks is not to be answered by another, nor by an earlier run.
os.environ["OPSCAFFOLD_CACHE_DIR"] = ""

# A shell starts background jobs with Ctrl-C ignored, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine, however slow it is at the time.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

REQUIRE_TORCH = "OPSCAFFOLD_REQUIRE_TORCH"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A file goes to one process as a whole: one that takes minutes must not be the last to start.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if importlib.util.find_spec("torch") is not None:
        return
    if os.environ.get(REQUIRE_TORCH) == "1":
        raise pytest.UsageError(f"torch is not installed, and {REQUIRE_TORCH}=1 promises it")
    skip = pytest.mark.skip(reason="needs torch")
    for item in items:
        if item.get_closest_marker("torch"):
            item.add_marker(skip)


@pytest.fixture
def repository_root() -> Path:
    """The checkout that holds these tests."""
    return Path(__file__).resolve().parent.parent
