"""Everything that doctor finds about the environment, whatever the model: it runs also where vLLM does not."""

from speccli.diagnose import Group, machine, software, storage
from speccli.diagnose.facts import Facts

GROUPS = {
    "Software": software.RULES,
    "Machine": machine.RULES,
    "Storage": storage.STORAGE,
    "Hub": storage.HUB,
    "Variables": storage.VARIABLES,
}


def environment(facts: Facts) -> tuple[Group, ...]:
    """The groups in which something was found, in the order of reading."""
    groups = (
        Group(title=title, findings=tuple(finding for rule in rules if (finding := rule(facts))))
        for title, rules in GROUPS.items()
    )
    return tuple(group for group in groups if group.findings)


def there(facts: Facts) -> tuple[Group, ...]:
    """Of a machine that is not this one: only what its profile tells."""
    found = machine.planned(facts)
    return (Group(title="Machine", findings=(found,) if found else ()),)
