"""Where the new op gets its name: imports, re-exports, ``__all__``, and names that are taken."""

from __future__ import annotations

import textwrap

import pytest
from migrating import HEADER, check_noop, migrate_files, reasons

OP = (
    HEADER
    + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


def other():
    pass
"""
)
USE = "\n\ndef f(x, b: torch.Tensor):\n    return {}(x, out=b)\n"


def become(files: dict[str, str], *names: str) -> list[str]:
    """What files become, beside an ``ops.py`` with the op unless there is one."""
    if not any(name.endswith("ops.py") for name in files):
        files = {"ops.py": OP, **files}
    after, migration = migrate_files(files)
    assert migration.plans, reasons(migration)
    return [after[name].decode() for name in names or [list(files)[-1]]]


IMPORTS = [
    ("from ops import double", "double", "from ops import double, double_out", "double_out"),
    (
        "from ops import double as dbl",
        "dbl",
        "from ops import double as dbl, double_out as dbl_out",
        "dbl_out",
    ),
    (
        "from ops import double as double",
        "double",
        "from ops import double as double, double_out as double_out",
        "double_out",
    ),
    (
        "from ops import double, other",
        "double",
        "from ops import double, double_out, other",
        "double_out",
    ),
    (
        "from ops import other, double",
        "double",
        "from ops import other, double, double_out",
        "double_out",
    ),
    (
        "from ops import (double)",
        "double",
        "from ops import (double, double_out)",
        "double_out",
    ),
    (
        "from ops import (\n    double,  # the op\n    # another\n    other,\n)",
        "double",
        "from ops import (\n    double,  # the op\n    double_out,\n    # another\n    other,\n)",
        "double_out",
    ),
    (
        "from ops import (\n    other,\n    double,  # the op\n    # end\n)",
        "double",
        "from ops import (\n    other,\n    double,  # the op\n    double_out,\n    # end\n)",
        "double_out",
    ),
    (
        "from ops import (other,\n                 double)  # ops",
        "double",
        "from ops import (other,\n                 double,\n                 double_out)  # ops",
        "double_out",
    ),
    (
        "from ops import other, \\\n    double",
        "double",
        "from ops import other, \\\n    double, \\\n    double_out",
        "double_out",
    ),
    (
        "from ops import double; import os",
        "double",
        "from ops import double, double_out; import os",
        "double_out",
    ),
    ("from ops import *", "double", "from ops import *", "double_out"),
    ("import ops", "ops.double", "import ops", "ops.double_out"),
    ("import ops as o", "o.double", "import ops as o", "o.double_out"),
    ("import os, ops", "ops.double", "import os, ops", "ops.double_out"),
    (
        "from torch import ops as torch_ops",
        "torch_ops.demo.double",
        "from torch import ops as torch_ops",
        "torch_ops.demo.double_out",
    ),
    ("NS = torch.ops.demo", "NS.double", "NS = torch.ops.demo", "NS.double_out"),
    (
        "import torch as t",
        "t.ops.demo.double.default",
        "import torch as t",
        "t.ops.demo.double_out.default",
    ),
]


@pytest.mark.parametrize(("line", "name", "new_line", "new_name"), IMPORTS)
def test_imports_bring_the_new_op(line: str, name: str, new_line: str, new_name: str) -> None:
    before = f"import torch\n{line}\n{USE.format(name)}"
    assert become({"use.py": before}) == [f"import torch\n{new_line}\n{USE.format(new_name)}"]


def test_import_inside_a_function() -> None:
    before = "def f(x, b: 'torch.Tensor'):\n    from ops import double\n\n    double(x, b)\n"
    assert become({"use.py": before}) == [
        (
            "def f(x, b: 'torch.Tensor'):\n    from ops import double, double_out\n\n"
            "    double_out(x, out=b)\n"
        )
    ]


def test_imports_that_need_no_new_op_stay() -> None:
    before = "from ops import double\n\n\ndef f(x):\n    return double(x, None)\n"
    assert become({"use.py": before}) == [before.replace(", None", "")]


def test_a_call_that_already_fits_leaves_its_file_alone() -> None:
    before = "from ops import double\n\n\ndef f(x):\n    return double(x)\n"
    assert become({"use.py": before}) == [before]


def test_two_names_of_one_op_in_one_module() -> None:
    before = "import torch\nfrom ops import double\nfrom ops import double as again\n"
    before += "\n\ndef f(x, b: torch.Tensor):\n    double(x, b)\n    return again(x, b)\n"
    (text,) = become({"use.py": before})
    assert "from ops import double, double_out\n" in text
    assert "from ops import double as again, double_out as again_out\n" in text
    assert "    double_out(x, out=b)\n    return again_out(x, out=b)\n" in text


def test_relative_imports_and_module_attributes_of_a_package() -> None:
    files = {
        "p/__init__.py": "",
        "p/ops.py": OP,
        "p/q/__init__.py": "from ..ops import double\n",
        "p/q/use.py": "import torch\nfrom . import double\nfrom .. import ops as o\n"
        "\n\ndef f(x, b: torch.Tensor):\n    o.double(x, b)\n    return double(x, b)\n",
        "far.py": "import torch\nimport p.ops\nfrom p import ops\n"
        "\n\ndef f(x, b: torch.Tensor):\n    p.ops.double(x, b); ops.double(x, b)\n",
    }
    inner, use, far, init = become(
        files, "p/q/__init__.py", "p/q/use.py", "far.py", "p/__init__.py"
    )
    assert inner == "from ..ops import double, double_out\n"
    assert "from . import double, double_out\n" in use
    assert "    o.double_out(x, out=b)\n    return double_out(x, out=b)\n" in use
    assert "    p.ops.double_out(x, out=b); ops.double_out(x, out=b)\n" in far
    assert init == ""


def test_a_chain_of_re_exports() -> None:
    files = {
        "p/__init__.py": 'from .a import double as double\n\n__all__ = ["double"]\n',
        "p/a.py": "from .b import double\n",
        "p/b.py": "from .ops import double as double\n",
        "p/ops.py": OP,
        "use.py": "import torch\nimport p\nfrom p import double as d\n"
        "\n\ndef f(x, b: torch.Tensor):\n    p.double(x, b)\n    return d(x, b)\n",
    }
    init, a, b, use = become(files, "p/__init__.py", "p/a.py", "p/b.py", "use.py")
    assert init == (
        "from .a import double as double, double_out as double_out\n\n"
        '__all__ = ["double", "double_out"]\n'
    )
    assert a == "from .b import double, double_out\n"
    assert b == "from .ops import double as double, double_out as double_out\n"
    assert "from p import double as d, double_out as d_out\n" in use
    assert "    p.double_out(x, out=b)\n    return d_out(x, out=b)\n" in use


def test_a_chain_of_re_exports_under_other_names() -> None:
    files = {
        "p/__init__.py": "from .a import twice as double2\n",
        "p/a.py": "from .b import dd as twice\n",
        "p/b.py": "from .ops import double as dd\n",
        "p/ops.py": OP,
        "use.py": "import torch\nimport p as q\n" + USE.format("q.double2"),
    }
    init, a, b, use = become(files, "p/__init__.py", "p/a.py", "p/b.py", "use.py")
    assert init == "from .a import twice as double2, twice_out as double2_out\n"
    assert a == "from .b import dd as twice, dd_out as twice_out\n"
    assert b == "from .ops import double as dd, double_out as dd_out\n"
    assert "q.double2_out(x, out=b)" in use


def test_a_package_re_exports_although_nobody_uses_it_here() -> None:
    files = {"p/__init__.py": "from .ops import double\n", "p/ops.py": OP}
    assert become(files, "p/__init__.py") == ["from .ops import double, double_out\n"]


ALLS = [
    ('__all__ = ["double"]', '__all__ = ["double", "double_out"]'),
    ("__all__ = ['other', 'double']", "__all__ = ['other', 'double', 'double_out']"),
    ('__all__ = ["double", "other"]', '__all__ = ["double", "double_out", "other"]'),
    ('__all__ = ("double",)', '__all__ = ("double", "double_out",)'),
    ('__all__ = "double", "other"', '__all__ = "double", "double_out", "other"'),
    (
        '__all__ = [\n    "double",  # the op\n    # more\n    "other",\n]',
        '__all__ = [\n    "double",  # the op\n    "double_out",\n    # more\n    "other",\n]',
    ),
    (
        '__all__ = [\n    "other",\n    "double",  # the op\n]',
        '__all__ = [\n    "other",\n    "double",  # the op\n    "double_out",\n]',
    ),
    ('__all__: list[str] = ["double"]', '__all__: list[str] = ["double", "double_out"]'),
    ('__all__ = []\n__all__ += ["double"]', '__all__ = []\n__all__ += ["double", "double_out"]'),
    ('__all__ = ()\n__all__ += ("double",)', '__all__ = ()\n__all__ += ("double", "double_out",)'),
    (
        '__all__ = []\n__all__.extend(["double"])',
        '__all__ = []\n__all__.extend(["double", "double_out"])',
    ),
    (
        '__all__ = []\n__all__.append("double")  # the op',
        '__all__ = []\n__all__.append("double")  # the op\n__all__.append("double_out")',
    ),
]


@pytest.mark.parametrize(("before", "after"), ALLS)
def test_all_names_the_new_op(before: str, after: str) -> None:
    star = "import torch\nfrom ops import *\n" + USE.format("double")
    ops, use = become({"ops.py": f"{OP}\n{before}\n", "use.py": star}, "ops.py", "use.py")
    assert ops.endswith(f"\n{after}\n")
    assert "return double_out(x, out=b)" in use


def test_all_of_a_package_names_what_it_re_exports() -> None:
    files = {
        "p/__init__.py": '__all__ = ("twice",)\n\nfrom .ops import double as twice\n',
        "p/ops.py": OP,
    }
    assert become(files, "p/__init__.py") == [
        (
            '__all__ = ("twice", "twice_out",)\n\n'
            "from .ops import double as twice, double_out as twice_out\n"
        )
    ]


REFUSED = {
    "name taken in a module": (
        "import torch\nfrom ops import double\n\ndouble_out = 3\n" + USE.format("double"),
        "`double_out`, which the new op would take, is already in use",
    ),
    "name taken by a parameter": (
        (
            "import torch\nfrom ops import double\n\n\n"
            "def f(x, double_out: torch.Tensor):\n    return double(x, double_out)\n"
        ),
        "`double_out`, which the new op would take, means something else here",
    ),
    "another name by assignment": (
        "import torch\nfrom ops import double\n\ntwice = double\n" + USE.format("twice"),
        "another name for the op, made by an assignment",
    ),
    "an import that may fail": (
        "import torch\n\ntry:\n    from ops import double\nexcept ImportError:\n"
        "    double = None\n" + USE.format("double"),
        "binds the op's name again",
    ),
    "a computed attribute": (
        (
            "import torch\n\n\ndef f(x, name, b: torch.Tensor):\n"
            '    return getattr(torch.ops.demo, "double")(x, b)\n'
        ),
        "cannot be followed to the new op",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_use_that_cannot_be_renamed_keeps_the_op(name: str) -> None:
    text, reason = REFUSED[name]
    files = {"ops.py": OP, "use.py": text}
    after, migration = migrate_files(files)
    assert migration.changes == {}
    assert after["use.py"].decode() == text
    assert any(reason in found for found in reasons(migration)), reasons(migration)
    assert {f.position.path.name for f in migration.findings} == {"use.py"}


def test_names_taken_where_the_op_is_defined() -> None:
    for more in ("double_out = None\n", "def double_out():\n    pass\n"):
        assert "is already in use here" in reasons(check_noop(f"{more}\n\n{OP}"))[0]


def test_an_op_of_the_new_name_that_is_there_already() -> None:
    for name in ("double_out", "double.out"):
        more = f"""

@torch.library.custom_op("demo::{name}", mutates_args=("y",))
def into(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
"""
        assert f"there is an op `demo::{name}` already" in reasons(check_noop(OP + more))[0]


FORMS = {
    "name as keyword": ('name="demo::double", mutates_args=["out"]', "double"),
    "device": ('"demo::double", mutates_args={"out"}, device_types="cpu"', "double"),
    "single quotes": ("'demo::double', mutates_args=('out',)", "double"),
    "schema": (
        (
            '"demo::double", mutates_args=("out",), '
            'schema="(Tensor x, Tensor(a1!)? out=None) -> Tensor"'
        ),
        "double",
    ),
    "names bound elsewhere": ('"demo::double", mutates_args=NAMES', "double"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_the_registration(name: str) -> None:
    registration, _ = FORMS[name]
    more = 'NAMES = ("out",)\n\n\n'
    old = '"demo::double", mutates_args=("out",)'
    (text,) = become({"ops.py": (more + OP).replace(old, registration)}, "ops.py")
    quote = "'" if name == "single quotes" else '"'
    assert f"{quote}demo::double{quote}" in text
    assert f"{quote}demo::double_out{quote}" in text
    assert "tags=torch.Tag.out" in text
    assert text.count("mutates_args=") == 2
    if name == "schema":
        assert 'schema="(Tensor x) -> Tensor"' in text
        assert 'schema="(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"' in text
    if name == "device":
        assert text.count('device_types="cpu"') == 2


ALIASES = [
    ("from torch.library import custom_op", "custom_op", "torch.Tag.out"),
    ("from torch.library import custom_op as op", "op", "torch.Tag.out"),
    ("from torch import library as lib", "lib.custom_op", "torch.Tag.out"),
    ("import torch.library", "torch.library.custom_op", "torch.Tag.out"),
]


@pytest.mark.parametrize(("line", "name", "tag"), ALIASES)
def test_custom_op_by_any_import(line: str, name: str, tag: str) -> None:
    text = OP.replace("@torch.library.custom_op", f"@{name}")
    text = text.replace("import torch\n", f"import torch\n{line}\n", 1)
    (after,) = become({"ops.py": text}, "ops.py")
    assert after.count(f"@{name}(") == 2
    assert f"tags={tag}" in after


def test_torch_is_imported_where_only_parts_of_it_were() -> None:
    before = '''\
        """Ops."""

        from __future__ import annotations

        from torch import Tensor, empty_like
        from torch.library import custom_op


        @custom_op("demo::double", mutates_args=())
        def double(x: Tensor, out: Tensor | None = None) -> Tensor:
            if out is None:
                out = empty_like(x)
            return out.copy_(x)
    '''
    (after,) = become({"ops.py": textwrap.dedent(before)}, "ops.py")
    head = after[: after.index("@custom_op")]
    assert "\nimport torch\n" in head
    assert head.index("from __future__") < head.index("import torch\n")
    assert "tags=torch.Tag.out" in after


def test_torch_under_another_name() -> None:
    text = OP.replace("import torch\n", "import torch as th\n", 1).replace("torch.", "th.")
    (after,) = become({"ops.py": text}, "ops.py")
    assert "tags=th.Tag.out" in after
    assert "import torch\n" not in after


def test_an_op_named_underscore() -> None:
    text = OP.replace("def double(", "def _(")
    use = "import torch\n\n\ndef f(x, b: torch.Tensor):\n    return torch.ops.demo.double(x, b)\n"
    ops, after = become({"ops.py": text, "use.py": use}, "ops.py", "use.py")
    assert ops.count("def _(") >= 2
    assert '@torch.library.register_fake("demo::double")' in ops
    assert "torch.ops.demo.double_out(x, out=b)" in after


TWO = """\
    if two is None:
        two = torch.empty_like(x)
    two.copy_(x)
"""
UNSPLIT = {
    "in a function": (
        "def make():\n" + textwrap.indent(OP, "    ") + "\n    return double\n",
        "inside a function or loop",
    ),
    "in a class": (
        HEADER + "class Ops:\n" + textwrap.indent(OP[len(HEADER) :], "    "),
        "inside a class",
    ),
    "in a loop": ("for _ in range(2):\n" + textwrap.indent(OP, "    "), "inside a function or"),
    "another decorator above": (OP.replace("@torch", "@cached\n@torch"), "above the registration"),
    "another decorator below": (
        OP.replace("def double", "@cached\ndef double"),
        "wraps the kernel",
    ),
    "name bound twice": (OP + "\n\ndouble = print\n", "is bound again"),
    "registered twice": (
        OP + "\n\n" + OP[len(HEADER) :].replace("def double", "def again"),
        "more than once",
    ),
    "overload": (OP.replace('"demo::double"', '"demo::double.two"'), "it is an overload"),
    "mutates unknown": (OP.replace('("out",)', '"unknown"'), '"unknown"'),
    "mutates computed": (OP.replace('("out",)', "tuple(names)"), "not written as names"),
    "star keywords": (OP.replace('mutates_args=("out",)', 'mutates_args=("out",), **more'), "star"),
    "two buffers": (
        OP.replace("None = None)", "None = None, two: Tensor | None = None)")
        .replace("    torch.mul", TWO + "    torch.mul")
        .replace("return out", "return out, two"),
        "may be omitted independently",
    ),
    "name computed": (OP.replace('"demo::double"', 'f"demo::{NAME}"'), "its name is computed"),
}


@pytest.mark.parametrize("name", UNSPLIT)
def test_what_is_out_of_reach_is_reported(name: str) -> None:
    text, reason = UNSPLIT[name]
    migration = check_noop(f"from x import cached, more, names\n\n{text}")
    assert any(reason in f.message for f in migration.findings), reasons(migration)
    assert all(f.remedy for f in migration.findings)


def test_harmless_decorators_are_kept_on_both_halves() -> None:
    (after,) = become(
        {"ops.py": OP.replace("def double", "@torch.no_grad()\ndef double")}, "ops.py"
    )
    assert after.count("@torch.no_grad()\ndef double") == 2


def test_ops_at_top_level_under_a_condition() -> None:
    text = "import torch\nfrom torch import Tensor\n\nif torch.cuda.is_available():\n\n"
    text += textwrap.indent(OP[len(HEADER) :], "    ")
    (after,) = become({"ops.py": text}, "ops.py")
    assert after.count('    @torch.library.custom_op("demo::double') == 2


def test_several_ops_of_one_file() -> None:
    other = OP[len(HEADER) :].replace("double", "triple").replace("def other", "def another")
    (after,) = become({"ops.py": f"{OP}\n\n{other}"}, "ops.py")
    for name in ("double", "double_out", "triple", "triple_out"):
        assert after.count(f'"demo::{name}"') == 1
