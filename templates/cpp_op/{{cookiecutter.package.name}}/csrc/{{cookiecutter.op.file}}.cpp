{%- set op = cookiecutter.op -%}
{%- set source = op.source -%}
// {{ op.title }}
//
// The C++ half: kernel, allocation and registration. The Python module of the same name has the
// fake kernel, and what callers use.

#include "ops.h"

namespace {{ source.scope }} {

using ops::Tensor;

{{ source.kernel_type | join("\n") }}

// {{ op.kernel_does }}
{{ source.cpu_head | join("\n") }}
{% if source.cpu_check %}
{{ source.cpu_check | join("\n") }}
{% endif %}
  // >>> Replace this placeholder with your kernel.
{{ source.body | join("\n") }}
  // <<< Replace up to here.
}

#ifdef WITH_CUDA
// In cuda/{{ op.file }}.cu.
{{ source.cuda_declaration | join("\n") }}
#endif
{% if source.metadata %}

// Shape, dtype and device of a result. The Python module has the same rule for the fake kernel.
{{ source.metadata | join("\n") }}
{% endif %}
{% for function in source.functions %}

{{ function | join("\n") }}
{% endfor %}

STABLE_TORCH_LIBRARY_FRAGMENT({{ cookiecutter.package.namespace }}, m) {
{{ source.definitions | join("\n") }}
}

STABLE_TORCH_LIBRARY_IMPL({{ cookiecutter.package.namespace }}, {{ source.cpu_key }}, m) {
{{ source.cpu | join("\n") }}
}

#ifdef WITH_CUDA
STABLE_TORCH_LIBRARY_IMPL({{ cookiecutter.package.namespace }}, CUDA, m) {
{{ source.cuda | join("\n") }}
}
#endif

}  // namespace {{ source.scope }}
