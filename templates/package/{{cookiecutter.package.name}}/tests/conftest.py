"""A compile cache of its own for each run.

PyTorch's caches do not notice that an op's contract changed, and would show the old result.
"""

{% if "cpp" in cookiecutter.package.languages %}
import importlib.util
{% endif %}
import os
{% if "cpp" in cookiecutter.package.languages %}
import sys
{% endif %}
import tempfile
{% if "cpp" in cookiecutter.package.languages %}
from pathlib import Path
{% endif %}
{% if "triton" in cookiecutter.package.languages %}

import torch
{% endif %}

_CACHE = tempfile.TemporaryDirectory(prefix="inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _CACHE.name
{% if "cpp" in cookiecutter.package.languages %}

# The sources are tested where the library was built beside them, else what is installed.
_SOURCES = Path(__file__).resolve().parent.parent / "src"
_BUILT = any(_SOURCES.glob("{{ cookiecutter.package.module }}/_C.*"))
if _BUILT or importlib.util.find_spec("{{ cookiecutter.package.module }}") is None:
    sys.path.insert(0, str(_SOURCES))
{% endif %}
{% if "triton" in cookiecutter.package.languages %}

# Triton looks at this when it is imported, which the ops do.
if not (torch.cuda.is_available() or torch.xpu.is_available()):
    os.environ.setdefault("TRITON_INTERPRET", "1")
{% endif %}
