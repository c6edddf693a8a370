"""Builds the C++ half of the package into {{ cookiecutter.package.module }}/_C.so (.pyd on Windows).

The rest of what is to be said about the package stands in pyproject.toml.
"""

import os
import sys
from pathlib import Path

from setuptools import setup

try:
    import setuptools.command.bdist_wheel  # noqa: F401
    import torch
    from torch.utils import cpp_extension
except ImportError as error:
    sys.exit(f"{error}: torch and setuptools 70.1 or newer are needed to build this package")

ROOT = Path(__file__).resolve().parent
# The oldest torch that the library runs with, as the headers of the stable ABI read it.
TORCH_MIN = ({{ cookiecutter.package.torch_min.replace(".", ", ") }})
TARGET = f"-DTORCH_TARGET_VERSION=0x{TORCH_MIN[0]:02x}{TORCH_MIN[1]:02x}000000000000"

with_cuda = torch.version.cuda is not None and cpp_extension.CUDA_HOME is not None
sources = sorted(ROOT.glob("csrc/*.cpp"))
flags = {"cxx": [TARGET]}
if os.name == "posix":
    flags["cxx"] += ["-O3", "-fvisibility=hidden"]
if with_cuda:
    sources += sorted(ROOT.glob("csrc/cuda/*.cu"))
    flags["cxx"] += ["-DWITH_CUDA", "-DUSE_CUDA"]
    flags["nvcc"] = ["-O3", TARGET, "-DWITH_CUDA", "-DUSE_CUDA"]
extension = cpp_extension.CUDAExtension if with_cuda else cpp_extension.CppExtension

setup(
    ext_modules=[
        extension(
            "{{ cookiecutter.package.module }}._C",
            [path.relative_to(ROOT).as_posix() for path in sources],
            depends=["csrc/ops.h"],
            extra_compile_args=flags,
            # Not linked to Python: the library runs with any Python, and without one.
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True)},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
