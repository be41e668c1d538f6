"""The pages of the dashboard."""

from __future__ import annotations

from soulslab.dashboard.pages import compare_page, fights_page, fleet_page, live_page, run_page, runs_page, study_page
from soulslab.dashboard.pages.frame import Site


def add_pages(site: Site) -> None:
    """Register all pages with NiceGUI."""
    for page in (runs_page, run_page, compare_page, live_page, fleet_page, fights_page, study_page):
        page.add(site)
