"""One page of `speccli doctor explain`."""

import msgspec


class Page(msgspec.Struct, frozen=True):
    """What a finding means, whatever its figures."""

    id: str
    title: str
    meaning: str
    fix: str = ""
