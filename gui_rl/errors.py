"""The one exception that is meant for the person at the keyboard (shared with the environment servers)."""

from env_servers.errors import UserError

__all__ = ["UserError"]
