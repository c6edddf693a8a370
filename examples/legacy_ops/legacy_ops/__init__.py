"""Small operators on signals, each with an optional buffer for its result."""

from . import pipeline
from .filters import soft_clip as soft_clip
from .levels import fade, gain

__all__ = ["fade", "gain", "pipeline", "soft_clip"]
