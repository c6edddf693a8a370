"""A compile cache of its own for each run.

PyTorch's caches do not notice that an op's contract changed, and would show the old result.
"""

import os
import tempfile

_CACHE = tempfile.TemporaryDirectory(prefix="inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _CACHE.name
