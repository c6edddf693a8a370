{%- set op = cookiecutter.op -%}
{%- set source = op.source -%}
// The kernel of {{ op.names_text }} for CUDA, built where CUDA is.

#include "../ops.h"

namespace {{ source.scope }} {

using ops::Tensor;

// {{ op.kernel_does }}
{{ source.cuda_head | join("\n") }}
  // >>> Replace this stub with your kernel: it computes on the CPU, and copies to and fro.
{{ source.body | join("\n") }}
  // <<< Replace up to here.
}

}  // namespace {{ source.scope }}
