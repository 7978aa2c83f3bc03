"""Objects that Kopf handled before: nothing is handled twice, and Kopf's annotations go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from setpoint.kopf._essence import essence
from setpoint.kopf._settings import OperatorSettings


def kopf_prefixes(settings: OperatorSettings) -> tuple[str, ...]:
    """Return the prefixes of Kopf's annotations, as the settings have them."""
    storages = (settings.persistence.diffbase_storage, settings.persistence.progress_storage)
    return tuple(dict.fromkeys(prefix for storage in storages for prefix in storage.annotation_prefixes() if prefix))


def handled_by_kopf(settings: OperatorSettings, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """Return the state of an object that Kopf handled; None if it has not."""
    state = settings.persistence.diffbase_storage.fetch(body=body)
    return None if state is None else essence(state, _status_fields(state), kopf_prefixes(settings))


def _status_fields(state: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Return the fields of the status that Kopf kept because handlers watched them."""
    return [("status",)] if "status" in state else []
