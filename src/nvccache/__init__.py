"""nvccache: a transparent compiler cache for NVIDIA's nvcc."""

__version__ = "0.1.0"
