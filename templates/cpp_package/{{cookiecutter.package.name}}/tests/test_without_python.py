{%- set package = cookiecutter.package -%}
{%- set packed = package.modules | selectattr("op.source") | selectattr("op.source.packs") | list -%}
"""The ops in C++ run where none of this package's Python is: in a program of AOTInductor."""
{% if packed %}

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

{% for line in ["import " ~ package.module, "import opscaffold_checks as checks", "import opscaffold_samples"] | sort %}
{{ line }}
{% endfor %}
from {{ package.module }}._library import library_path

{% if packed | length < package.modules | selectattr("op.source") | list | length %}
# AOTInductor packages no op that returns a number, nor several ops whose results have sizes that
# only the data tells (torch 2.13).
{% endif %}
FUNCTIONS: dict[str, Callable[..., Any]] = {
{% for module in packed %}
{% for form in module.op.forms %}
    "{{ form.form.registered.qualname }}": {{ package.module }}.{{ form.form.name }},
{% endfor %}
{% endfor %}
}

RUN = """
import sys

import torch

library, package, data, module = sys.argv[1:]
torch.ops.load_library(library)
inputs, expected = torch.load(data)
results = torch._inductor.aoti_load_package(package)(*inputs)
torch.testing.assert_close(list(results), expected)
assert module not in sys.modules
"""


class Program(torch.nn.Module):
    """Calls each op on its first sample, and returns all that is written and returned."""

    def __init__(self) -> None:
        """Make the samples once: no program has to."""
        super().__init__()
        device = torch.device("cpu")
        samples = {name: opscaffold_samples.SAMPLES[name](device) for name in FUNCTIONS}
        self.calls = [(FUNCTIONS[name], next(rows)) for name, rows in samples.items()]
        given = [[*sample.args, *sample.kwargs.values()] for _, sample in self.calls]
        self.inputs = tuple(checks.tensors(given))

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """``inputs`` are the tensors of all samples, in order."""
        rest = iter(inputs)
        found: list[Tensor] = []
        for function, sample in self.calls:
            call = checks._with_tensors(sample, lambda _, tensor: next(rest).clone())
            results = function(*call.args, **call.kwargs)
            found += checks.tensors([*call.args, *call.kwargs.values(), results])
        return found


def test_a_packaged_program_runs_beside_the_shared_library_alone(tmp_path: Path) -> None:
    program = Program()
    expected = program(*program.inputs)
    package = torch._inductor.aoti_compile_and_package(
        torch.export.export(program, program.inputs),
        package_path=str(tmp_path / "program.pt2"),
        # The program is small: what takes long is compiling it.
        inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0"},
    )
    data = tmp_path / "data.pt"
    torch.save((program.inputs, expected), data)
    arguments = [str(library_path()), package, str(data), "{{ package.module }}"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
{% endif %}
