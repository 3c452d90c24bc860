"""Projects."""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from api.auth import Caller, Operator, covers
from api.graders import DESCRIPTION_CHARACTERS, NAME_CHARACTERS
from api.services import Served
from gradebox.schemas import Key, Project

router = APIRouter(prefix="/v1/projects", tags=["projects"])


class NewProject(BaseModel):
    """A project to be made."""

    model_config = ConfigDict(extra="forbid")

    key: Key
    name: str = Field(default="", max_length=NAME_CHARACTERS, description="for people to read; the key by default")
    description: str = Field(default="", max_length=DESCRIPTION_CHARACTERS)


@router.post("", status_code=201)
def create(services: Served, operator: Operator, new: NewProject) -> Project:
    """Makes a project."""
    return services.store.projects.create(new.key, new.name, new.description)


@router.get("")
def list_covered(services: Served, caller: Caller) -> list[Project]:
    """The projects that the API key covers, by key."""
    return [project for project in services.store.projects.all() if covers(caller, project.key)]
