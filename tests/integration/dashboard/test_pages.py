"""The pages of the dashboard in a browser, with the files of runs."""

import socket
import urllib.error
import urllib.request

import numpy as np
import pytest
from playwright.sync_api import expect

from soulslab.dashboard.pages.frame import UNKNOWN
from soulslab.dashboard.run_log import RunLog
from soulslab.learn import telemetry
from support.browser import chart_data, check_widths
from support.run_folders import evaluated, finished, line, progress, started, write_run
from support.waiting import PATIENCE_S

ATTACK = "<img src=x onerror=alert(1)>"
"""Name of a run that would be a script if it were not escaped."""


def fights(env_steps):
    damage = {"sweep": 10.0 + env_steps / 100, "grab": 3.0}
    return telemetry.FightStats(
        env_steps=env_steps,
        n_fights=20,
        reward_terms={"win": 0.5},
        damage_by_attack=damage,
        action_shares=(0.25, 0.5, 0.25),
        kills_by_attack={"sweep": 0.25},
        uses_by_attack={"sweep": 4.0, "grab": 2.0},
        hits_by_attack={"sweep": 1.0, "grab": 0.5},
        damage_dealt=150.0,
        damage_taken=13.0,
        decisions_by_phase={"1": 40.0, "2": 0.0},
        damage_dealt_by_phase={"1": 150.0, "2": 0.0},
        damage_taken_by_phase={"1": 13.0, "2": 0.0},
        actions_by_situation={"far": (1.0, 0.0, 0.0), "near": (0.0, 0.75, 0.25), "near, boss attacks": ()},
    )


@pytest.fixture(scope="module")
def root(shelf):
    root, _ = shelf
    messages = [started()]
    for step in range(10, 1001, 10):
        messages += [progress(step, step / 2000), fights(step)]
        if step % 250 == 0:
            messages.append(evaluated(step, 0.3 + step / 2500))
    write_run(root / "first", [*messages, finished(1000)], settings="[learner]\nlr = 0.001\n")
    trained = [message for message in messages if not isinstance(message, telemetry.Evaluated)]
    write_run(root / "second", trained[:100], settings="[learner]\nlr = 0.002\n")
    write_run(root / ATTACK.replace("/", ""), [started(), progress(10)])
    return root


@pytest.fixture(scope="module")
def dashboard(root, shelf):
    return shelf[1]


def status(url, cookie="", *, data=None, origin=""):
    """Return the status of a request without a browser, which follows no redirect."""

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    headers = {name: value for name, value in (("Cookie", cookie), ("Origin", origin)) if value}
    request = urllib.request.Request(url, data, headers)  # noqa: S310
    try:
        with urllib.request.build_opener(NoRedirect).open(request) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


def points(series):
    return [[x, pytest.approx(y)] for x, y in zip(series.env_steps, series.values, strict=True)]


def test_token_is_needed_once(dashboard):
    assert status(f"{dashboard.base}/")[0] == 401
    assert status(f"{dashboard.base}/?token=wrong")[0] == 401
    name = f"soulslab_dashboard_{dashboard.base.rpartition(':')[2]}"
    assert status(f"{dashboard.base}/", f"{name}=wrong")[0] == 401
    assert status(f"{dashboard.base}/_nicegui_ws/socket.io/?EIO=4&transport=polling")[0] == 401
    code, headers = status(dashboard.at("/"))
    assert (code, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    code, headers = status(f"{dashboard.base}/", cookie.partition(";")[0])
    assert code == 200
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_link_cannot_redirect_to_another_host(dashboard):
    code, headers = status(dashboard.at("//example.org/"))
    assert (code, headers["Location"]) == (303, "/example.org/")


def handshake(base, cookie, origin):
    """Return the status of the handshake of a websocket."""
    host = base.removeprefix("http://")
    lines = [
        *("GET /feed/first HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"),
        *("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Origin: {origin}"),
        *([f"Cookie: {cookie}"] if cookie else []),
    ]
    name, port = host.split(":")
    with socket.create_connection((name, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(1024).split()[1])


def test_websocket_without_cookie_or_from_another_site_is_refused(dashboard):
    cookie = status(dashboard.at("/"))[1]["Set-Cookie"].partition(";")[0]
    assert handshake(dashboard.base, cookie, dashboard.base) == 101
    assert handshake(dashboard.base, cookie, "http://example.org") == 403
    assert handshake(dashboard.base, "", dashboard.base) == 403
    # Without a websocket, Socket.IO sends the events of a page by POST.
    polling = f"{dashboard.base}/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert status(polling, cookie, data=b"40", origin="http://example.org")[0] == 401


def test_list_shows_the_runs(dashboard, open_page):
    page = open_page(dashboard.at("/"))
    row = page.locator("tr", has_text="first")
    expect(row).to_contain_text("finished")
    expect(row).to_contain_text("70.0 %")
    expect(row).to_contain_text("60 to 80 %")
    expect(page.locator("tr", has_text="second")).to_contain_text("failed")
    # Times are those of the viewer's zone; the last of 100 messages came 99 s after the first one.
    expect(page.locator("tr", has_text="second").locator("time")).to_have_attribute("title", "11/15/2023, 7:14:59 AM")
    expect(page.locator("tr", has_text=ATTACK)).to_be_visible()
    assert page.title() == "Runs · soulslab"
    assert "token" not in page.url
    expect(page.locator("svg.spark").first).to_be_visible()
    check_widths(page)


def test_charts_have_the_numbers_of_the_folder_and_need_no_other_host(dashboard, open_page, root):
    page = open_page("about:blank")
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(dashboard.at("/run/first"))
    log = RunLog(root / "first" / "progress.jsonl")
    log.update()
    rates = chart_data(page, "Win rate")
    band = log.evaluated_win_rate()
    assert rates["evaluation"] == points(band.series)
    low, width = rates["evaluation, lower end"], rates["evaluation, interval"]
    assert [y for _, y in low] == pytest.approx(band.low.tolist())
    assert [a + b for (_, a), (_, b) in zip(low, width, strict=True)] == pytest.approx(band.high.tolist())
    moving = log.moving_win_rate().series
    assert rates["last training fights"] == points(moving)
    damage = chart_data(page, "Damage taken by attack")
    expected = log.series("fight/damage/sweep")
    assert damage["sweep"] == points(expected)
    assert chart_data(page, "actions")["Actions in the last fights"] == [50.0, 25.0, 25.0]
    assert chart_data(page, "Avoided attacks")["sweep"] == [[x, 75.0] for x in expected.env_steps]
    assert chart_data(page, "Damage")["dealt"] == [[x, 150.0] for x in expected.env_steps]
    check_widths(page)
    assert hosts == {dashboard.base.split("/")[2]}


def table(page, title):
    """Return the cells of the table below a heading, by row."""
    rows = page.locator(f"h2:text-is('{title}') + div.scroll table tbody tr")
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def test_tables_have_the_numbers_of_the_folder_and_the_axis_can_be_changed(dashboard, open_page, root):
    folder = root / "first"
    (folder / "checkpoints").mkdir(exist_ok=True)
    for steps in (400, 800):
        (folder / "checkpoints" / f"step_{steps:015d}.safetensors").write_bytes(b"")
    page = open_page(dashboard.at("/run/first?axis=training time"))
    expect(page.get_by_role("heading", name="Phases, last training fights")).to_be_visible()
    assert table(page, "Attacks, last training fights") == [
        ["sweep", "4.00", "75.0 %", "20.0", "25.0 %"],
        ["grab", "2.00", "75.0 %", "3.0", "0.0 %"],
    ]
    assert table(page, "Phases, last training fights") == [
        ["1", "40", "150", "13", "375"],
        ["2", "0", "0", "0", UNKNOWN],
    ]
    assert table(page, "Actions by situation, last training fights") == [
        ["0", "100.0 %", "0.0 %", UNKNOWN],
        ["1", "0.0 %", "75.0 %", UNKNOWN],
        ["2", "0.0 %", "25.0 %", UNKNOWN],
    ]
    saved = table(page, "Saved policies")
    assert [row[1:4] for row in saved] == [["800", "60.0 % 50 to 70 %", "750"], ["400", "40.0 % 30 to 50 %", "250"]]
    seconds = [x for x, _ in chart_data(page, "Fight length")["last training fights"]]
    assert seconds == pytest.approx(np.arange(0.1, 10.01, 0.1).tolist())


def test_comparison_shows_a_line_for_each_run_and_the_differences(dashboard, open_page):
    page = open_page(dashboard.at("/compare?run=first&run=second&run=../etc"))
    # The first run has evaluations, the second one has not.
    names = {name for name in chart_data(page, "compare") if not name.endswith(("interval", "lower end"))}
    assert names == {"first, evaluation", "second, last training fights"}
    expect(page.locator("table.plain")).to_contain_text("learner.lr")
    expect(page.locator("table.plain")).to_contain_text("0.002")
    check_widths(page)


def test_unknown_run_says_so(dashboard, open_page):
    page = open_page(dashboard.at("/live/missing"))
    expect(page.locator("#content")).to_contain_text("No such run")
    for path, text in (
        ("/run/missing", "No such run"),
        ("/run/..%2F..%2Fetc", "No such run"),
        ("/fleet/missing", "No such fleet"),
        *((f"/live/first?game={game}", "on this machine") for game in ("..", "../../second", "pc/0", 300 * "a")),
    ):
        assert text in page.request.get(f"{dashboard.base}{path}").text(), path
    page.goto(f"{dashboard.base}/live/first")
    expect(page.locator("#notice")).to_be_visible()
    check_widths(page)


def test_theme_follows_the_system_and_the_switch(dashboard, open_page):
    page = open_page("about:blank")
    page.context.clear_cookies(name="soulslab_theme")  # other pages have chosen the theme
    page.emulate_media(color_scheme="dark")
    page.goto(dashboard.at("/"))
    expect(page.locator("body.body--dark")).to_be_attached()
    page.get_by_label("Switch between light and dark").click()
    expect(page.locator("body.body--dark")).to_have_count(0)
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("body.body--dark")).to_have_count(0)  # also the theme of all later pages


def test_list_follows_the_folder_and_keeps_the_focus_of_the_keyboard(dashboard, open_page, root):
    page = open_page(dashboard.at("/"))
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    link = page.locator("a", has_text="first")
    link.focus()
    path = write_run(root / "growing", [started(), progress(100, 0.25)])
    row = page.locator("tr", has_text="growing")
    expect(row).to_contain_text("25.0 %")
    with path.open("ab") as file:
        file.write(line(progress(200, 0.75)))
    expect(row).to_contain_text("75.0 %")
    path.unlink()
    expect(row).to_have_count(0)
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("first")


def test_many_pages_at_once(dashboard, open_page, root):
    """Twenty pages of one server; one is drawn, the others are loaded and connected as NiceGUI's script does it."""
    page = open_page(dashboard.at("/"))
    page.evaluate("""async () => {
        window.isUpdated = Array(19).fill(false);
        await Promise.all(isUpdated.map(async (_, i) => {
            const [, id] = (await (await fetch("/")).text()).match(/'client_id': '([-0-9a-f]+)'/);
            const names = {client_id: id, document_id: `document-${i}`, tab_id: `tab-${i}`, old_tab_id: ""};
            const query = {...names, next_message_id: 0, implicit_handshake: true};
            const options = {path: "/_nicegui_ws/socket.io", query, transports: ["websocket"], forceNew: true};
            const socket = io(`ws://${location.host}`, options);
            socket.on("update", message => { isUpdated[i] ||= JSON.stringify(message).includes("watched"); });
            await new Promise((resolve, reject) => { socket.on("connect", resolve).on("connect_error", reject); });
        }));
    }""")
    path = write_run(root / "watched", [started(), progress(100, 0.25)])
    expect(page.locator("tr", has_text="watched")).to_contain_text("25.0 %")
    page.wait_for_function("isUpdated.every(Boolean)")
    path.unlink()
