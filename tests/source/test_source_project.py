from __future__ import annotations

import pytest

OP = "import torch\n@torch.library.custom_op('ns::a', mutates_args=())\ndef a(x): ...\n"


def test_nothing_that_is_read_is_run(tree):
    tree.file("m.py", OP + "raise SystemExit(open('made.txt', 'w'))\n")
    assert len(tree.read().ops) == 1
    assert not (tree.root / "made.txt").exists()


def test_files_that_cannot_matter_are_not_parsed(read):
    project = read({"m.py": OP, "far.py": "x = 1\n", "near.py": "from m import a\n"})
    project.references(project.ops[0])
    assert [module.name for module in project.modules] == ["m", "near"]


@pytest.mark.parametrize(
    "text",
    [
        OP + "x = " + "+".join(["a"] * 900),
        OP + "a" + ".b" * 900,
        OP + "if x: pass\n" + "elif x: pass\n" * 60,
        OP + "torch.library.custom_op(" + "+".join(["a"] * 900) + ", a, mutates_args=())",
        OP + "f(" * 80 + "a" + ")" * 80,
        OP + "\n".join(f"v{i + 1} = v{i}" for i in range(3000)),
        OP
        + "class C:\n"
        + "\n".join(
            f"    def f{i}(self):\n        self.x{i} = self.x{i + 1} or self.x{i + 2}\n"
            f"        self.x{i}.y.z()"
            for i in range(200)
        ),
    ],
    ids=["sum", "chain", "elif", "name", "calls", "aliases", "instance attributes"],
)
def test_hostile_shapes_are_read_in_bounded_time(read, text):
    project = read({"m.py": text})
    for op in project.ops:
        project.references(op)
    assert project.ops[0].qualname == "ns::a"


def test_a_missing_file_is_a_problem(tree):
    tree.file("m.py", OP)
    project = tree.read("gone.py")
    (problem,) = project.problems
    assert problem.path.name == "gone.py"
    assert "cannot be read" in problem.message


def test_the_order_is_that_of_the_files(read):
    files = {f"m{i}.py": OP.replace("ns::a", f"ns::a{i}") for i in range(5)}
    project = read(dict(reversed(files.items())))
    assert [op.qualname for op in project.ops] == [f"ns::a{i}" for i in range(5)]
