"""A page that shows one of everything, and text that would do harm if it were not escaped."""

from __future__ import annotations

from opscaffold.report.migration import Contract, Page, Reason, Repair, Site, Value

EVIL = "</script><img src=x onerror=\"document.title='hit'\">&amp;\x00\x1b[2J\u202e\udcff<b>"
LONG = "a_name_that_goes_on_and_on_" * 6

OLD = Contract(
    "demo::gain",
    "mutable",
    "demo::gain(Tensor x, Tensor(a!)? out=None) -> Tensor",
    (),
    (Value("Tensor", "x"), Value("Tensor?", "out", "None", sets=("a",), written=True)),
    (Value("Tensor"),),
)
FRESH = Contract(
    "demo::gain",
    "functional",
    "demo::gain(Tensor x) -> Tensor",
    (),
    (Value("Tensor", "x"),),
    (Value("Tensor"),),
)
OUT = Contract(
    "demo::gain_out",
    "out=",
    "demo::gain_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
    ("out",),
    (Value("Tensor", "x"), Value("Tensor", "out", kw_only=True, sets=("a",), written=True)),
    (Value("Tensor", sets=("a",), written=True),),
)
DIFF = b"""\
diff --git a/ops.py b/ops.py
--- a/ops.py
+++ b/ops.py
@@ -1,2 +1,2 @@
 import torch
-gain(x, buf)
+gain_out(x, out=buf)
"""


def repair(op: str = "demo::gain", **changes: object) -> Repair:
    given: dict[str, object] = {
        "op": op,
        "does": "split into demo::gain and demo::gain_out",
        "rules": ("OPS101",),
        "safe": True,
        "old": OLD,
        "new": (FRESH, OUT),
        "diff": DIFF,
        "sites": (Site("app/run.py", 7, "gain(x, buf)", "gain_out(x, out=buf)"),),
    }
    return Repair(**(given | changes))  # type: ignore[arg-type]


def reason(state: str, text: str = "why") -> Reason:
    return Reason(state, "OPS101", "maybe-out", "ops.py", 3, text, "do it by hand")


FULL = Page(
    "project",
    written=False,
    ops=9,
    files=2,
    repairs=(repair(), repair("demo::other", safe=False, old=FRESH, new=(FRESH,), sites=())),
    left=(
        ("demo::kept", (reason("refused", "a reason to keep it"),)),
        ("demo::risky", (reason("unsafe"),)),
        ("demo::wrong", (reason("withdrawn"), reason("withdrawn", "another"))),
        ("demo::unwanted", (reason("declined"),)),
    ),
    notes=(reason("note", "look at this"),),
)
HARMFUL = Page(
    EVIL,
    written=True,
    ops=1,
    files=1,
    repairs=(
        repair(
            EVIL,
            does=EVIL,
            rules=(EVIL,),
            old=Contract(EVIL, EVIL, EVIL, (EVIL,), (Value(EVIL, EVIL, EVIL),), (Value(EVIL),)),
            new=(Contract(LONG, "functional", LONG, (), (Value(LONG, LONG, LONG),) * 9, ()),),
            diff=DIFF + b"+" + EVIL.encode("utf-8", "surrogateescape") + b"\xff\n" + LONG.encode(),
            sites=(Site(EVIL, 1, EVIL, LONG),),
        ),
    ),
    left=(
        (EVIL, (Reason("refused", EVIL, EVIL, EVIL, 1, EVIL, EVIL),)),
        (LONG, (reason("unsafe"),)),
    ),
    notes=(reason("note", EVIL),),
)
