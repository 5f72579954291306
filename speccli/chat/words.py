"""Words that follow a number."""


def counted(count: int, what: str, several: str = "") -> str:
    """So many of it: `several` is the plural where that is not the word with an s."""
    return f"{count:,} {what if count == 1 else several or f'{what}s'}"
