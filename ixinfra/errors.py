"""Every exception the product raises on purpose.

A failure at start (configuration, wiring, a missing package) is an exception from here. A failure
inside a chat turn is a value with a reason, never an exception; see `ixchat.utils.resolution`.
"""


class IxError(Exception):
    """Base of all errors raised by ix."""


class ConfigError(IxError, ValueError):
    """A configuration file, key or value cannot be used; the message names it and the fix."""


class UnknownTierError(ConfigError):
    """A tenant's tier has no retrieval mode."""


class UnknownTenantError(IxError, KeyError):
    """A turn names a tenant that the configuration does not hold."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MissingExtraError(IxError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class ModelError(IxError):
    """A chat model gave no usable answer. `reason` is one of `ixinfra.llm.ModelFailure`, `status` the HTTP
    status of the refusal where there was one."""

    def __init__(self, message: str, *, reason: str, status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status


class KnowledgeBaseError(IxError):
    """A knowledge base cannot be built, opened or used as configured."""


class RetrievalError(IxError):
    """A search did not answer. `reason` is `timeout`, `unavailable` or `closed`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DatasetError(IxError, ValueError):
    """A data file cannot be read; the message names file, line and field."""


class IncompleteRunError(DatasetError):
    """An evaluation run lost an item, so it has no score; the message names the item."""


class UploadError(IxError):
    """Langfuse did not take everything it was sent; the message says what is missing."""


class RefusedError(IxError):
    """A web request is not served: `status` is the HTTP status, `reason` one word for the client."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
