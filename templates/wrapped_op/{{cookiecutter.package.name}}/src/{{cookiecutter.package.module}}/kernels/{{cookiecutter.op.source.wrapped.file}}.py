{%- set source = cookiecutter.op.source -%}
{%- set wrapped = source.wrapped -%}
{% if wrapped.imported %}
"""A kernel: {{ wrapped.function }}, which is defined in {{ wrapped.imported }}."""

{% else %}
"""A kernel: {{ wrapped.source }}."""

# The text below is as its author wrote it. Without these lines it is held to this project's style.
{% endif %}
# ruff: noqa
# fmt: off
# mypy: ignore-errors
{{ wrapped.code.rstrip("\n") }}
{% for text in wrapped.fakes.values() %}


# What of it allocates the results, on tensors without data.
{{ text.rstrip("\n") }}
{% endfor %}


# What the ops call.
from typing import Any as {{ source.any_name }}

{{ source.entry }}: {{ source.any_name }} = {{ wrapped.function }}
{% for name, entry in source.fakes.items() %}
{{ entry }}: {{ source.any_name }} = {{ name }}
{% endfor %}
