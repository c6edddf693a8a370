"""Small operators on signals, with the faults that such operators have."""

from . import pipeline
from .filters import soft_clip as soft_clip
from .levels import fade, gain
from .memory import invert_, meter, trim

__all__ = ["fade", "gain", "invert_", "meter", "pipeline", "soft_clip", "trim"]
