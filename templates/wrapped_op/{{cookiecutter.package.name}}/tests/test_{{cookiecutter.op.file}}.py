{%- set test = cookiecutter.test -%}
"""Each promise of {{ cookiecutter.op.names_text }}, tested on the samples."""

{{ test.imports | join("\n") }}


{{ test.reference_head | join("\n") }}
    """What is {{ test.reference_does }}, by the function that the op was made of."""
{{ test.reference_body | join("\n") }}
{% for function in test.functions %}


{% if function.decorator %}
{{ function.decorator | join("\n") }}
{% endif %}
{{ function.head | join("\n") }}
{{ function.body | join("\n") }}
{% endfor %}
