"""Checkpoints from the Hugging Face hub, kept in the hub's own cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from speccli.errors import CheckpointError
from speccli.source import HubSource

NEEDED = ["*.json", "*.safetensors", "*.jinja", "tokenizer*", "*.model", "*.txt"]


def fetch(source: HubSource, narrate: Callable[[str], None]) -> Path:
    """Download what the engine needs of a repository, or find it in the cache."""
    import huggingface_hub
    from huggingface_hub import errors

    narrate(f"checkpoint {source.repo}")
    try:
        return Path(huggingface_hub.snapshot_download(source.repo, revision=source.revision, allow_patterns=NEEDED))
    except errors.GatedRepoError as error:
        raise CheckpointError(
            f"{source.repo} is gated: its owner wants you to accept a licence first",
            f"accept it on {huggingface_hub.constants.ENDPOINT}/{source.repo}, then `hf auth login`",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise CheckpointError(
            f"{source.repo} has no revision {source.revision}", "name a branch, tag or commit that the hub shows"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise CheckpointError(
            f"the hub has no repository {source.repo}", "check the spelling; for a private one, `hf auth login`"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.HfHubHTTPError, OSError) as error:
        raise CheckpointError(
            f"{source.repo} could not be fetched: {str(error).splitlines()[0]}",
            "try again, or name a folder that holds it",
        ) from error
    except errors.HFValidationError as error:
        raise CheckpointError(f"{source.repo!r} is no repository name: {error}", "write it as ORG/NAME") from error
