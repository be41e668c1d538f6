"""The pages of studies in a browser."""

import pytest
from playwright.sync_api import expect

from support.browser import chart_data, check_widths
from support.studies import write_study


def test_study_shows_its_candidates_and_follows_its_journal(shelf, open_page):
    root, dashboard = shelf
    store = write_study(root / "rates")
    page = open_page(dashboard.at("/studies"))
    page.locator("#content a", has_text="rates").click()
    expect(page.locator("h1")).to_have_text("rates")
    expect(page.locator("tbody tr")).to_have_count(12)
    rows = store.rows()
    data = chart_data(page, "candidates")
    complete = [[row.number, pytest.approx(100 * row.value, rel=1e-4)] for row in rows if row.state == "complete"]
    assert data["trained to the end"] == complete
    importances = [round(100 * share, 1) for share in store.importances().values()]
    assert chart_data(page, "importance")["Importance"] == importances
    best = max(row.value for row in rows if row.state == "complete")
    expect(page.locator("tbody tr").first).to_contain_text(f"{100 * best:.1f} %")
    store.draw()
    expect(page.locator("tbody tr")).to_have_count(13)
    check_widths(page)
    write_study(root / "begun", n_trials=0)
    page.goto(f"{dashboard.base}/study/begun")
    expect(page.locator("#content")).to_contain_text("No candidate has finished yet")
    expect(page.locator("[data-chart]")).to_have_count(0)
    page.goto(f"{dashboard.base}/study/missing")
    expect(page.locator("#content")).to_contain_text("No such study")
