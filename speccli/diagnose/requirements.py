"""Version ranges, read from the metadata of installed packages so that no second copy can go stale."""

from speccli.diagnose.facts import Package

EXTRAS = ("", "cpu", "cuda")


def specifier(package: Package | None, name: str) -> str:
    """The versions of `name` that the package asks for on this machine; empty where it does not say."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for text in package.requires if package else ():
        wanted = Requirement(text)
        applies = wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in EXTRAS)
        if canonicalize_name(wanted.name) == name and applies:
            return low_first(str(wanted.specifier))
    return ""


def accepts(specifier: str, version: str) -> bool:
    """Development builds count: who has one has meant it."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier).contains(version, prereleases=True)


def low_first(specifier: str) -> str:
    """As people write a range: >=1,<2."""
    return ",".join(sorted(specifier.split(","), key=lambda part: "<" in part))
