"""Decision: one choice that a pairing is made of."""

import msgspec


class Decision(msgspec.Struct, frozen=True):
    """What was chosen, why, and who said so."""

    what: str
    """target, method, speculator or num_speculative_tokens."""
    value: str
    reason: str
    source: str
