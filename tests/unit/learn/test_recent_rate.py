from soulslab.learn.recent_rate import RecentRate


def test_a_burst_counts_until_it_is_older_than_the_window():
    rate = RecentRate(0.0, 100, window_s=10.0)

    assert rate.update(1.0, 600) == 500.0
    assert [rate.update(float(second), 600) for second in (2, 5, 10)] == [250.0, 100.0, 50.0]
    assert rate.update(11.0, 600) == 0.0


def test_the_rate_is_the_mean_over_at_least_the_window_however_long_the_pauses_are():
    rate = RecentRate(0.0, 0, window_s=10.0)

    rate.update(4.0, 40)

    assert rate.update(13.0, 130) == 10.0
    assert rate.update(30.0, 300) == 10.0


def test_the_rate_is_zero_before_any_time_has_passed():
    rate = RecentRate(5.0, 3)

    assert rate.update(5.0, 3) == 0.0
