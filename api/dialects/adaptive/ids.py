"""Stable ids, computed from a key and a creation time, so that a new object with an old key gets another id."""

from uuid import UUID, uuid5

from gradebox.schemas import ApiKey, GraderRecord, Project

_SPACE = UUID("0b7c1f0e-7a52-4b0f-9d0b-6a3a8a5d2f11")


def of_project(project: Project) -> UUID:
    """The id of a project."""
    return uuid5(_SPACE, f"project/{project.key}/{project.created_at.isoformat()}")


def of_grader(grader: GraderRecord) -> UUID:
    """The id of a grader."""
    return uuid5(_SPACE, f"grader/{grader.project}/{grader.key}/{grader.created_at.isoformat()}")


def of_metric(grader: GraderRecord) -> UUID:
    """The id of the metric of a grader's scores."""
    return uuid5(_SPACE, f"metric/{grader.project}/{grader.key}/{grader.created_at.isoformat()}")


def of_model(key: str) -> UUID:
    """The id of a judge's model."""
    return uuid5(_SPACE, f"model/{key}")


def of_user(key: ApiKey) -> UUID:
    """The id of an API key's holder."""
    return uuid5(_SPACE, f"user/{key.id}")


def is_id(ref: str) -> bool:
    """Whether this has the form of an id."""
    try:
        UUID(ref)
    except ValueError:
        return False
    return True
