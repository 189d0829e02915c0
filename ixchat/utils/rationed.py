"""A resolver that may ask a model only as often as the tenant's quota allows."""

from __future__ import annotations

from ixchat.utils.resolution import Resolution, Resolver, Turn
from ixinfra.spending import CHARS_A_TOKEN, spending
from ixrag.search.quota import Quota


def rationed(resolver: Resolver, quota: Quota) -> Resolver:
    """`resolver` within `quota`: once that is used up, the visitor's own words with the reason `quota`."""

    async def resolve(turn: Turn) -> Resolution:
        reserved = len(turn.query) // CHARS_A_TOKEN + 1
        if not quota.take(turn.tenant_id, reserved):
            return Resolution(turn.query, "error", "quota")
        with spending() as spent:
            try:
                return await resolver(turn)
            finally:
                quota.settle(turn.tenant_id, reserved, spent)

    return resolve
