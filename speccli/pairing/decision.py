"""Decision: one choice that a pairing is made of."""

import msgspec


class Decision(msgspec.Struct, frozen=True):
    """What was chosen, why, and who said so."""

    what: str
    """target, method, speculator, num_speculative_tokens, or batch: how many requests at once are answered."""
    value: str
    reason: str
    source: str
