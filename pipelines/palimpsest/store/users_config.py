"""Whose memories a collection keeps: `users` in collection.yaml."""

from pydantic import BaseModel, ConfigDict


class UsersConfig(BaseModel):
    """Whose memories a collection keeps: all users' but those who are denied."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deny: tuple[str, ...] = ()
