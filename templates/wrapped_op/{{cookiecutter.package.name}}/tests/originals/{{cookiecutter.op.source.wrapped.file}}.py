{%- set wrapped = cookiecutter.op.source.wrapped -%}
"""{{ wrapped.source }} as it was. Leave this as it is where the kernel changes."""

# ruff: noqa
# fmt: off
# mypy: ignore-errors
{{ wrapped.code.rstrip("\n") }}
