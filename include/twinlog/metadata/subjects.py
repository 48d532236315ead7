"""Choose what the metadata sync of a flow copies, and how often.  Pure: Dag files, which are parsed often, ask this."""

from __future__ import annotations

from enum import StrEnum

from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings


class Subject(StrEnum):
    """A subject that can be synced by itself."""

    CONFIGS = "configs"
    ACLS = "acls"
    QUOTAS = "quotas"


def subjects_of(flow: FlowSettings) -> frozenset[Subject]:
    """Return what a flow syncs, by its settings; MM2 syncs no quotas."""
    chosen = {
        Subject.CONFIGS: flow.sync_topic_configs,
        Subject.ACLS: flow.sync_topic_acls,
        Subject.QUOTAS: flow.metadata.quotas and flow.metadata.profile is not Profile.MM2,
    }
    return frozenset(subject for subject, is_on in chosen.items() if is_on)


def intervals(flow: FlowSettings) -> dict[Subject, int]:
    """Return the seconds between two syncs of each subject that the flow syncs.

    MM2 has an interval for configs and one for ACLs; quotas use the configs'.
    """
    configs, acls = flow.sync_topic_configs_interval_seconds, flow.sync_topic_acls_interval_seconds
    every = {Subject.CONFIGS: configs, Subject.QUOTAS: configs, Subject.ACLS: acls}
    return {subject: every[subject] for subject in sorted(subjects_of(flow))}
