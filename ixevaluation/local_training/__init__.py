"""Trains and measures the learned scorer of `ixchat.utils.local`; see `python -m ixevaluation.local_training -h`."""
