import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.power import NormalIndPower

from ixevaluation import stats

RNG = np.random.default_rng(20260826)
DELTAS = [float(x) for x in RNG.normal(0.03, 0.15, size=60)]


@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_test_equals_scipys_exact_binomial(better: int, worse: int) -> None:
    expected = scipy_stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert stats.sign_test(better, worse) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [(18, 11, 0.265), (20, 7, 0.019), (73, 36, 0.001), (64, 44, 0.067)],
)
def test_sign_test_gives_published_p_values(better: int, worse: int, p: float) -> None:
    assert stats.sign_test(better, worse) == pytest.approx(p, abs=5e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_mcnemar_equals_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    control, treated = [c for c, _ in pairs], [t for _, t in pairs]
    table = [[sum(c == x and t == y for c, t in pairs) for y in (True, False)] for x in (True, False)]
    expected = statsmodels_mcnemar(table, exact=True).pvalue if table[0][1] + table[1][0] else 1.0
    assert stats.mcnemar(control, treated) == pytest.approx(expected, rel=1e-9)


def test_standard_error_of_independent_items_equals_scipy() -> None:
    assert stats.standard_error(DELTAS) == pytest.approx(float(scipy_stats.sem(DELTAS)))


def test_standard_error_with_shared_conversations_equals_statsmodels_clustered() -> None:
    clusters = [i // 3 for i in range(len(DELTAS))]
    fit = OLS(DELTAS, np.ones(len(DELTAS))).fit()
    robust = fit.get_robustcov_results("cluster", groups=clusters, use_correction=False, df_correction=False)
    groups = len(set(clusters))
    expected = float(robust.bse[0]) * math.sqrt(groups / (groups - 1))
    assert stats.standard_error(DELTAS, clusters) == pytest.approx(expected)


def test_standard_error_of_one_group_is_unknown() -> None:
    assert math.isnan(stats.standard_error([0.1, 0.2], ["same", "same"]))


def test_bootstrap_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    ours = stats.bootstrap_ci(DELTAS, draws=20_000)
    theirs = scipy_stats.bootstrap(
        (DELTAS,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.002)


def test_bootstrap_resamples_whole_conversations() -> None:
    """Ten copies of an item say no more than one: the interval must not shrink."""
    singles = [0.4, -0.3, 0.2, 0.1, -0.1, 0.5, 0.0, -0.2]
    copies = [delta for delta in singles for _ in range(10)]
    conversations = [i for i in range(len(singles)) for _ in range(10)]
    alone = stats.bootstrap_ci(singles, draws=4000)
    clustered = stats.bootstrap_ci(copies, conversations, draws=4000)
    naive = stats.bootstrap_ci(copies, draws=4000)
    assert (clustered.low, clustered.high) == pytest.approx((alone.low, alone.high), abs=1e-12)
    assert naive.high - naive.low < 0.5 * (clustered.high - clustered.low)


def test_bootstrap_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(300):
        sample = rng.normal(0.05, 0.2, size=50).tolist()
        interval = stats.bootstrap_ci(sample, draws=400, seed=trial)
        covered += interval.low <= 0.05 <= interval.high
    assert 0.90 <= covered / 300 <= 0.985


def test_same_seed_same_interval_other_seed_other_interval() -> None:
    assert stats.bootstrap_ci(DELTAS, seed=3) == stats.bootstrap_ci(DELTAS, seed=3)
    assert stats.bootstrap_ci(DELTAS, seed=3) != stats.bootstrap_ci(DELTAS, seed=4)


@pytest.mark.parametrize(
    ("interval", "excludes"),
    [((0.01, 0.2), True), ((-0.2, -0.01), True), ((-0.01, 0.2), False), ((0.0, 0.2), False)],
)
def test_interval_excludes_zero(interval: tuple[float, float], excludes: bool) -> None:
    assert stats.Interval(*interval).excludes_zero is excludes


def test_tally_counts_a_move_of_exactly_the_tie_width_as_a_tie() -> None:
    assert stats.tally([0.1, 0.11, -0.1, -0.2, 0.0], tie_width=0.1) == stats.Tally(1, 1, 3)
    assert stats.tally([0.1 + 0.2 - 0.3]) == stats.Tally(0, 0, 1)


def test_variance_split_matches_the_mean_squares_of_a_one_way_anova() -> None:
    table = RNG.normal(0, 0.05, size=(40, 3)) + RNG.normal(0, 0.2, size=(40, 1))
    split = stats.variance_split(table.tolist())
    f_value = scipy_stats.f_oneway(*table).statistic
    assert (3 * split.item + split.run) / split.run == pytest.approx(f_value)
    assert split.run == pytest.approx(np.mean(np.var(table, axis=1, ddof=1)))
    assert split.item_share == pytest.approx(0.94, abs=0.03)


def test_variance_split_by_hand() -> None:
    """Items at 0 and 1, runs at +-0.1: within 0.02, between 2 * 0.5, item (1 - 0.02) / 2."""
    split = stats.variance_split([[-0.1, 0.1], [0.9, 1.1]])
    assert (split.run, split.item) == pytest.approx((0.02, 0.49))
    assert split.standard_error(100, 2) == pytest.approx(math.sqrt((0.49 + 0.01) / 100))


def test_more_runs_hardly_help_when_items_carry_the_variance() -> None:
    """96 % between items: eight runs instead of two save one per cent of the standard error."""
    split = stats.VarianceSplit(item=0.96, run=0.04, runs=2)
    assert split.standard_error(83, 8) / split.standard_error(83, 2) == pytest.approx(
        0.0201 / 0.0203, abs=0.004
    )


@pytest.mark.parametrize("table", [[], [[0.1, 0.2]], [[0.1], [0.2]], [[0.1, 0.2], [0.1]]])
def test_variance_split_refuses_what_it_cannot_split(table: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="two items"):
        stats.variance_split(table)


def test_detectable_effect_agrees_with_statsmodels() -> None:
    sd, n = 0.15, 83
    # ratio=0: one sample; effect size in sd units.
    expected = NormalIndPower(ddof=0).solve_power(nobs1=n, alpha=0.05, power=0.8, ratio=0) * sd
    assert stats.detectable_effect(sd / math.sqrt(n)) == pytest.approx(float(expected), rel=1e-3)


def test_items_needed_gives_published_figures() -> None:
    """325 items detect about 0.023; an effect of 0.018 measured with SE 0.009 needs about 635."""
    assert stats.detectable_effect(0.15 / math.sqrt(325)) == pytest.approx(0.023, abs=5e-4)
    assert stats.items_needed(0.009, 325, 0.018) == pytest.approx(635, rel=0.01)
    assert stats.items_needed(0.009, 325, 0.0) == 0


@given(st.floats(0.01, 0.5), st.integers(10, 500), st.floats(0.005, 0.5))
def test_items_needed_inverts_detectable_effect(sd: float, n: int, effect: float) -> None:
    needed = stats.items_needed(sd / math.sqrt(n), n, effect)
    assert stats.detectable_effect(sd / math.sqrt(needed)) <= effect + 1e-6
    if needed > 1:
        assert stats.detectable_effect(sd / math.sqrt(needed - 1)) > effect - 1e-6


def test_empty_input_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least one"):
        stats.bootstrap_ci([])
    assert math.isnan(stats.mean([]))
    assert math.isnan(stats.quantile([], 0.5))


def test_quantile_interpolates() -> None:
    assert stats.quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
