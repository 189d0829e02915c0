"""Trains the intent gate: `python -m ixevaluation.gate_training --data FOLDER`."""
