"""A small web server around the chat graph, and the page that shows what a turn searched; extra `serve`."""

from ixchat.serve.app import build_app

__all__ = ["build_app"]
