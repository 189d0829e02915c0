"""Measures: item sets, arms, judges, paired statistics and reports behind `rose-eval`."""

__all__: list[str] = []
