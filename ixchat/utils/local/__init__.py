"""Resolution without a model: the words of the conversation and the tenant's names decide."""

from ixchat.utils.local.resolver import LocalResolver

__all__ = ["LocalResolver"]
