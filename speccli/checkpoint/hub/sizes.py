"""Sizes for people: decimal units, as the hub's own pages show them."""


def sized(size_bytes: int) -> str:
    """As "3.99 GB"; bytes below a kilobyte stay whole."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.2f} {unit}"
    return f"{size_bytes} B"
