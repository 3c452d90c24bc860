"""Ids that stay: made of what names a thing, and of when it was made, so that a new thing of an old key has another."""

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
    """The id of the metric that a grader's scores are."""
    return uuid5(_SPACE, f"metric/{grader.project}/{grader.key}/{grader.created_at.isoformat()}")


def of_model(key: str) -> UUID:
    """The id of a model that a judge names."""
    return uuid5(_SPACE, f"model/{key}")


def of_user(key: ApiKey) -> UUID:
    """The id of an API key's holder."""
    return uuid5(_SPACE, f"user/{key.id}")


def is_id(ref: str) -> bool:
    """Whether this can be an id at all."""
    try:
        UUID(ref)
    except ValueError:
        return False
    return True
