"""Where the API listens, from the environment: `GRADEBOX_HOST` and so on."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ApiSettings(BaseSettings):
    """The address of the API."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8000, ge=0, le=65535)
    socket_fd: int | None = Field(default=None, description="a listening socket that was passed on, instead of both")
