"""API keys, for those who may manage them."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from api.auth import Operator
from api.services import Served
from gradebox.schemas import ApiKey, Role
from storage.api_keys import EVERY_PROJECT

router = APIRouter(prefix="/v1/keys", tags=["keys"])


class NewKey(BaseModel):
    """A key to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200, description="whose it is, or what for")
    projects: list[Annotated[str, Field(max_length=64)]] = Field(
        min_length=1, max_length=1000, description='keys of projects; "*" stands for all'
    )
    role: Role = Field(default="manage", description="what the key may do; each role may do what those before it may")


@router.post("", status_code=201)
def create(services: Served, operator: Operator, new: NewKey) -> ApiKey:
    """Makes a key. Its secret is in this answer and nowhere else."""
    for project in new.projects:
        if project != EVERY_PROJECT:
            services.store.projects.check(project)
    return services.store.api_keys.create(new.name, new.projects, new.role)


@router.get("")
def list_all(services: Served, operator: Operator) -> list[ApiKey]:
    """All keys without their secrets, oldest first."""
    return services.store.api_keys.all()


@router.delete("/{key_id}", status_code=204)
def revoke(services: Served, operator: Operator, key_id: str) -> None:
    """Makes a key worthless, at once."""
    services.store.api_keys.revoke(key_id)
