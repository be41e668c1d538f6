"""The calibration of predicted win rates."""

import json
import math
from pathlib import Path

import msgspec
import pytest

from benchmarks.prediction import (
    CALIBRATION_SEEDS,
    PredictionResultSettings,
    Training,
    calibrate,
    measure_prediction,
    read_trainings,
)
from benchmarks.result import as_rows
from soulslab.errors import ConfigError
from soulslab.fights.prediction import CALIBRATION

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def trainings_on_a_line(offset, slope, residuals):
    trainings = []
    for number, residual in enumerate(residuals):
        ensemble = 0.2 + 0.5 * number / len(residuals)
        true = 1 / (1 + math.exp(-(offset + slope * math.log(ensemble / (1 - ensemble)) + residual)))
        trainings.append(Training((number,), CALIBRATION_SEEDS[0], "probe", ensemble, true))
    return trainings


def test_the_calibration_is_the_regression_of_the_log_odds():
    found = calibrate(trainings_on_a_line(0.7, 1.3, [0.0] * 30))
    assert found == (0.7, 1.3, 0.0, 0.0, 0.2)
    scattered = calibrate(trainings_on_a_line(0.7, 1.3, [0.4, -0.4] * 200))
    assert scattered[:4] == pytest.approx((0.7, 1.3, -0.4, 0.4), abs=0.02)


def test_the_product_has_the_calibration_of_the_published_trainings():
    chosen = [each for each in read_trainings(RESULTS) if each.seed in CALIBRATION_SEEDS]
    assert calibrate(chosen) == CALIBRATION
    assert {each.recorded for each in chosen} == {"probe", "reference"}
    assert len({each.what for each in chosen}) == len(chosen) >= 40


def test_the_intervals_hold_for_trainings_that_did_not_determine_them():
    results = measure_prediction(PredictionResultSettings(results=RESULTS))
    stored = json.loads((RESULTS / "prediction.json").read_text())
    command = "python -m benchmarks prediction --json docs/results/prediction.json"
    assert [row | {"machine": None} for row in stored] == [row | {"machine": None} for row in as_rows(results)], command
    later = next(row for row in results[1].rows if row["trainings"] == "later")
    assert later["number"] >= 20
    assert later["within the interval"] / later["number"] >= 0.8
    assert later["width (points, mean)"] < 50


def test_other_files_and_too_few_trainings_are_errors(tmp_path):
    with pytest.raises(ConfigError, match="has 0 trainings with the seeds of the calibration and 0 with later ones"):
        measure_prediction(PredictionResultSettings(results=tmp_path))
    path = tmp_path / "fit-other.json"
    for content in (b"{", b"[1]", msgspec.json.encode([{"won against the ensemble (%)": 50.0, "seed": 20_000_000}])):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="not a result of the benchmark fit-training"):
            read_trainings(tmp_path)
