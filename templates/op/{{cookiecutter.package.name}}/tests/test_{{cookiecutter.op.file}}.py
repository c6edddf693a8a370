{%- set test = cookiecutter.test -%}
"""Each promise of {{ cookiecutter.op.names_text }}, tested on the samples."""

{{ test.imports | join("\n") }}


{{ test.reference_head | join("\n") }}
    """What is {{ test.reference_does }}, in plain PyTorch."""
    # >>> Replace this together with the kernel.
{{ test.reference_body | join("\n") }}
    # <<< Replace up to here.
{% for function in test.functions %}


{% if function.decorator %}
{{ function.decorator | join("\n") }}
{% endif %}
{{ function.head | join("\n") }}
{{ function.body | join("\n") }}
{% endfor %}
