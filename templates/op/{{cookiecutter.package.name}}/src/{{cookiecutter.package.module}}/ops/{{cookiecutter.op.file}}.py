{%- set op = cookiecutter.op -%}
"""{{ op.title }}

Schema:
{{ op.doc | join("\n") }}
"""

{{ op.imports | join("\n") }}

{{ op.exports | join("\n") }}
{% if op.library %}

{{ op.library | join("\n") }}
{% endif %}
{% if op.metadata %}


{{ op.metadata.head | join("\n") }}
    """Shape, dtype and device of a result: one rule for kernel, fake kernel and buffers."""
{{ op.metadata.body | join("\n") }}
{% endif %}
{% if op.before_kernel %}


# >>> Replace this placeholder with your kernel.
{{ op.before_kernel | join("\n") }}


# <<< Replace up to here.
{% endif %}
{% if op.kernel %}


{{ op.kernel.head | join("\n") }}
    """{{ op.kernel_does }}"""
    # >>> Replace this placeholder with your kernel.
{{ op.kernel.body | join("\n") }}
    # <<< Replace up to here.
{% endif %}
{% for kernel in op.more_kernels %}


{{ kernel.head | join("\n") }}
    """{{ op.kernel_does }}"""
    # >>> Replace this placeholder with your kernel.
{{ kernel.body | join("\n") }}
    # <<< Replace up to here.
{% endfor %}
{% for form in op.forms %}


{% if form.registration.head %}
{{ form.registration.decorator | join("\n") }}
{{ form.registration.head | join("\n") }}
{{ form.registration.body | join("\n") }}
{% if form.registration.after %}


{{ form.registration.after | join("\n") }}
{% endif %}
{% else %}
{{ form.registration.after | join("\n") }}
{% endif %}
{% if form.fake %}


{% if form.fake.decorator %}
{{ form.fake.decorator | join("\n") }}
{% endif %}
{{ form.fake.head | join("\n") }}
{{ form.fake.body | join("\n") }}
{% if form.fake.after %}


{{ form.fake.after | join("\n") }}
{% endif %}
{% endif %}
{% if form.autograd %}


{{ form.autograd.setup_head | join("\n") }}
{{ form.autograd.setup_body | join("\n") }}


{{ form.autograd.backward_head | join("\n") }}
    # >>> Replace this together with the kernel: it is its derivative.
{{ form.autograd.backward_body | join("\n") }}
    # <<< Replace up to here.


{{ form.autograd.register | join("\n") }}
{% endif %}
{% for lines in form.additions %}


{{ lines | join("\n") }}
{% endfor %}
{% endfor %}
{% for form in op.forms %}


{{ form.public.head | join("\n") }}
{{ form.public.doc | join("\n") }}
{{ form.public.body | join("\n") }}
{% endfor %}
