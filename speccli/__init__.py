"""speccli: speculative decoding on vLLM, for people."""

__version__ = "0.1.0"
