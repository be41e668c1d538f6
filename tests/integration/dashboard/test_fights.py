"""The pages of recorded fights in a browser."""

import av
from playwright.sync_api import expect

from soulslab.fights.recording import FightRecorder, record_fight
from support.browser import running_dashboard


def test_recorded_fight_can_be_found_and_replayed(tmp_path, open_page):
    folder = tmp_path / "runs" / "set"
    folder.parent.mkdir()
    with FightRecorder(folder, "soulslab/Arena-v0", {"boss": "judge", "phase": "1"}, "reference") as recorder:
        episode = record_fight(recorder, 5)
    with running_dashboard(tmp_path / "runs", tmp_path / "dashboard.log") as dashboard:
        page = open_page(dashboard.link)
        page.goto(f"{dashboard.base}/fights")
        page.locator("#content a", has_text="set").click()
        row = page.locator("tbody tr", has_text="Fight 0")
        expect(row).to_contain_text("won" if episode.is_won else "lost")
        page.get_by_role("button", name="lost" if episode.is_won else "won").click()
        expect(row).to_have_count(0)
        page.get_by_role("button", name="all").click()
        page.get_by_role("link", name="Fight 0").click()
        page.wait_for_function("window.soulslabLive?.endings.size === 1", timeout=60_000)
        assert page.evaluate("soulslabLive.moments.map(each => each.action)") == episode.actions.tolist()
        page.locator("#position").fill("7")
        page.wait_for_function("document.body.dataset.decision === '0:7'")
        expect(page.locator("#health")).to_be_visible()
        expect(page.locator("#value")).to_be_hidden()
        with page.expect_download(timeout=60_000) as download:
            page.get_by_role("link", name="Save as video").click()
        assert download.value.suggested_filename == "set_0.mp4"
        with av.open(download.value.path()) as film:
            assert sum(1 for _ in film.decode(video=0)) == len(episode.actions)
        page.goto(f"{dashboard.base}/replay/set?fight=9")
        expect(page.locator("#notice")).to_contain_text("no episode 9")
