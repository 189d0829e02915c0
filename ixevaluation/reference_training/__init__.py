"""Teaches the scorer that decides on references (`ixchat.utils.local.reference`)."""
