"""What is to be generated: the validated form of every answer, and all that rendering reads."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from opscaffold.contract.model import OpContract
from opscaffold.scaffold.from_spec import Wrapped


class FakeMode(enum.Enum):
    """How the metadata of the outputs follows from the inputs."""

    SAME = "same"
    BROADCAST = "broadcast"
    EXPRESSION = "expression"
    DYNAMIC = "dynamic"


class Registration(enum.Enum):
    """What the ops of a package are registered through."""

    CUSTOM_OP = "custom_op"
    """``torch.library.custom_op``, which looks at what an op returns each time it is called."""
    LIBRARY = "library"
    """``torch.library.Library``: calls cost less, and the tests alone look at what is returned."""


class KernelLanguage(enum.Enum):
    """What an op's kernel is written in."""

    TORCH = "torch"
    NUMPY = "numpy"
    TRITON = "triton"
    CPP = "cpp"
    WRAPPED = "wrapped"
    """A function that was there: ``OpSpec.wraps``."""


@dataclass(frozen=True, slots=True)
class FakeSpec:
    """The rule that kernel placeholder and fake kernel share.

    ``like`` names the Tensor argument whose shape, dtype and device the outputs take (mode
    SAME), or whose dtype and device they take (EXPRESSION, DYNAMIC). ``shape`` holds, for
    EXPRESSION, one Python expression a dimension over the inputs' sizes (``x.shape[0]``).
    """

    mode: FakeMode = FakeMode.SAME
    like: str = ""
    shape: tuple[str, ...] = ()


AUTOCAST_DTYPES = ("float16", "bfloat16", "float32")
DEVICES = ("cpu", "cuda", "xpu")


@dataclass(frozen=True, slots=True)
class Additions:
    """What is registered for an op beside what its contract needs.

    ``autocast`` is the dtype to which inputs are cast, empty where they are not. ``device_kernels``
    are the types of devices that have a kernel of their own.
    """

    vmap: bool = False
    autocast: str = ""
    torch_dispatch: bool = False
    device_kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One op, or one family of three, to generate.

    ``contract`` is the functional one where ``family`` is set: the in-place and out= ops are
    derived from it. ``autograd`` is only ever set on functional contracts.
    """

    contract: OpContract
    fake: FakeSpec
    autograd: bool = True
    family: bool = False
    kernel: KernelLanguage = KernelLanguage.TORCH
    wraps: Wrapped | None = None
    additions: Additions = Additions()


@dataclass(frozen=True, slots=True)
class Setting:
    """What an op shares with all others of its package, and may be refused for."""

    torch_min: tuple[int, int] = (2, 13)
    registration: Registration = Registration.CUSTOM_OP


@dataclass(frozen=True, slots=True)
class PackageSpec:
    """A package of ops. ``name`` is the distribution's, ``module`` the import package's.

    ``folder`` is the package within it that holds the ops, ``support`` the module that they share:
    others than here where a package of somebody's own has these names already.
    """

    name: str
    module: str
    namespace: str
    ops: tuple[OpSpec, ...]
    torch_min: tuple[int, int] = (2, 13)
    description: str = ""
    registration: Registration = Registration.CUSTOM_OP
    folder: str = "ops"
    support: str = "_contract"

    @property
    def ops_package(self) -> str:
        """The dotted name of the package that holds the ops, one module each."""
        return f"{self.module}.{self.folder}"

    @property
    def support_module(self) -> str:
        """The dotted name of the module that the ops share."""
        return f"{self.module}.{self.support}"
