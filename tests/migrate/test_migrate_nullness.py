"""Buffers that may be None at a call, against the looks of it: the call must test them."""

from __future__ import annotations

import textwrap

import pytest
from migrating import HEADER, migrate_files

OP = (
    HEADER
    + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


"""
)
MORE = """\
import contextlib


class Swallow:
    def __enter__(self):
        return None

    def __exit__(self, *a):
        return True


@contextlib.contextmanager
def timed():
    yield


@contextlib.contextmanager
def ignoring():
    try:
        yield
    except ValueError:
        pass


def wipe(items):
    items[0] = None


NOTHING = None
STEADY = torch.empty(2)
SET_HERE = torch.empty(2)
SET_THERE = torch.empty(2)
PATCHED = torch.empty(2)


def drop():
    global SET_HERE
    SET_HERE = None


"""
ELSEWHERE = """\
import ops


def off(monkeypatch):
    ops.SET_THERE = None
    monkeypatch.setattr(ops, "PATCHED", None)
"""

# Statements, the buffer, and whether it is None: never (False), or perhaps (None).
CASES = [
    # Objects of unknown type have methods of any name.
    ("", "p.new_empty(2)", None),
    ("", "p.zeros(2)", None),
    ("", "p.clone()", None),
    ("", "p.contiguous()", None),
    ("", "p.view(-1)", None),
    ("", "p.data", None),
    ("", "p.T", None),
    ("", "p.shape", None),
    ("q = p.new_empty(2)", "q", None),
    ("", "t.new_empty(2)", False),
    ("", "t.clone().contiguous()", False),
    ("", "t.view(-1)", False),
    ("", "t.data", False),
    ("", "t[0]", False),
    ("", "x.new_empty(2)", False),
    ("x = p.pick()", "x.new_empty(2)", None),
    ("", "torch.empty(2)", False),
    # Attributes of tensors that may be None.
    ("", "t.grad", None),
    ("", "t.grad_fn", None),
    ("", "t.names", None),
    # Elements of lists and dicts.
    ("d = [t]\nd.clear()\nd.append(None)", "d[0]", None),
    ("d = [t]\nd[0] = None", "d[0]", None),
    ("d = [t, 1]\nwipe(d)", "d[0]", None),
    ("d = [t]\ne = d\ne[0] = None", "d[0]", None),
    ("d = [None]\np.fill(d)", "d[0]", None),
    ("d = [t]\np.fill(d)\nq, = d", "q", None),
    ("d = {'a': t}\nd['a'] = None", "d['a']", None),
    ("d = [t, t]\nwipe(d)\ny = x\nq, *r = d", "q", None),
    ("q, *r = [t, None]", "r[0]", None),
    ("q, *r = [t, None]", "q", False),
    ("*r, q = (None, t)", "q", False),
    ("d = (t, None)", "d[0]", False),
    ("a, b = t.split(2)", "b", False),
    # Context managers that swallow exceptions.
    ("q = torch.empty(2)\nwith contextlib.suppress(ValueError):\n    q = None\n    p()\n    q = t",
     "q", None),
    ("q = None\nwith Swallow():\n    p()\n    q = t", "q", None),
    ("q = t\nwith Swallow():\n    q = None\n    raise ValueError", "q", None),
    ("q = None\nwith ignoring():\n    q = t", "q", None),
    ("q = None\nwith p:\n    q = t", "q", None),
    ("q = None\nwith contextlib.nullcontext():\n    q = t", "q", False),
    ("q = None\nwith torch.inference_mode():\n    q = t", "q", False),
    ("q = None\nwith torch.cuda.device(0), open('f'):\n    q = t", "q", False),
    ("q = None\nwith torch.autograd.profiler.record_function('f'):\n    q = t", "q", False),
    ("q = None\nwith timed():\n    q = t", "q", False),
    ("q = None\nwith Swallow():\n    y = t", "t", False),
    # Loops and operands that may not run.
    ("q = t\nfor i in p:\n    if i:\n        q = None\n        continue\n    q = t", "q", None),
    ("q = r = t\nfor i in p:\n    q = r\n    r = None\n    if i:\n        continue\n    r = t",
     "q", None),
    ("a = b = c = d = e = t\nfor i in p:\n    a, b, c, d, e = b, c, d, e, None", "a", None),
    ("q = None\np and (q := t)", "q", None),
    # Names of modules.
    ("", "NOTHING", None),
    ("q = NOTHING", "q", None),
    ("", "STEADY", False),
    ("", "SET_HERE", None),
    ("if SET_HERE is not None:\n    drop()\ny = x", "SET_HERE", None),
    ("", "SET_THERE", None),
    ("q = SET_THERE", "q", None),
    ("", "PATCHED", None),
]  # fmt: skip


@pytest.fixture(scope="module")
def calls() -> list[str]:
    text = OP + MORE
    for number, (code, buffer, _) in enumerate(CASES):
        body = f"{code}\nout_{number} = double(x, {buffer})\nreturn out_{number}".lstrip()
        text += f"def f_{number}(x, t: Tensor, p):\n{textwrap.indent(body, '    ')}\n\n\n"
    files, _ = migrate_files({"ops.py": text, "tests/test_ops.py": ELSEWHERE})
    after = files["ops.py"].decode()
    found = []
    for number in range(len(CASES)):
        start = after.index(f"out_{number} = ")
        found.append(" ".join(after[start : after.index(f"return out_{number}\n", start)].split()))
    return found


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{n}-{CASES[n][1]}")
def test_a_buffer_is_tested_where_it_may_be_none(calls: list[str], number: int) -> None:
    _, _, null = CASES[number]
    assert "double_out(x, out=" in calls[number]
    assert ("is None" in calls[number]) is (null is None)


def test_a_namespace_that_is_written_as_a_dict_makes_all_its_names_unsure() -> None:
    text = OP + 'H = torch.empty(2)\nglobals()["H"] = None\n\n\ndef f(x):\n    y = double(x, H)\n'
    files, _ = migrate_files({"ops.py": text})
    assert b"y = double(x) if H is None else double_out(x, out=H)" in files["ops.py"]


def test_a_sibling_function_may_rebind_what_a_closure_passes() -> None:
    text = OP + textwrap.dedent(
        """\
        def f(x):
            o = torch.empty(2)

            def reset():
                nonlocal o
                o = None

            def run():
                return double(x, o)

            return reset, run
        """
    )
    files, _ = migrate_files({"ops.py": text})
    assert b"return double(x) if o is None else double_out(x, out=o)" in files["ops.py"]


@pytest.mark.parametrize(
    "choice",
    [
        "    if not isinstance(out, Tensor):\n        out = torch.empty_like(x)\n",
        (
            "    if isinstance(out, torch.Tensor):\n        pass\n    else:\n"
            "        out = torch.empty_like(x)\n"
        ),
        "    out = out if isinstance(out, Tensor) else torch.empty_like(x)\n",
    ],
)
def test_whether_it_is_a_tensor_is_whether_it_is_given(choice: str) -> None:
    written = OP.replace("    if out is None:\n        out = torch.empty_like(x)\n", choice)
    files, _ = migrate_files({"ops.py": written})
    text = files["ops.py"].decode()
    assert "isinstance" not in text
    assert "def double_out(x: Tensor, *, out: Tensor) -> Tensor:" in text


def test_whether_it_is_a_kind_of_tensor_is_another_question() -> None:
    test = "if out is None or not isinstance(out, torch.nn.Parameter):"
    files, _ = migrate_files({"ops.py": OP.replace("if out is None:", test)})
    assert b"isinstance(out, torch.nn.Parameter)" in files["ops.py"]
