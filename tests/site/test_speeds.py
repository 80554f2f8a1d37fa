"""The page of speeds in Chromium: chart, keys, table, address. `make test-site` builds it first."""

import csv
import functools
import http.server
import json
import re
import shutil
import threading
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from gemmlab.folders import ROOT
from gemmlab.site import speeds

SITE = ROOT / "build" / "site"
PAGE = "speeds.html"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{PAGE}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "these tests need a Chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser, address):
    """The page as it opens; no message on the console, no request to another host."""
    found, said = browser.new_page(accept_downloads=True), []
    found.on("console", lambda one: said.append(one.text))
    found.on("pageerror", lambda one: said.append(str(one)))
    found.on("request", lambda one: said.append(one.url) if is_elsewhere(one.url) else None)
    found.goto(address)
    expect(found.locator(".speeds-chart svg")).to_be_visible()
    yield found
    found.close()
    assert said == []


def is_elsewhere(url: str) -> bool:
    return urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).hostname != "127.0.0.1"


def count(page) -> int:
    words = page.locator(".speeds-actions span").inner_text()
    return int(words.split(" ")[0].replace(",", ""))


def go_to(page, fragment: str) -> None:
    page.goto(f"{page.url.partition('#')[0]}#{fragment}")


def test_the_library_is_vendored_with_its_licence():
    static = SITE / "_static"
    text = (static / speeds.DATA).read_text(encoding="utf-8")
    data = json.loads(text.partition(" = ")[2].removesuffix(";\n"))
    assert len(text.encode()) < 1_000_000
    library = static / data["library"]
    assert library.stat().st_size == data["library_bytes"]
    assert re.match(r"/\*! Vega [\d.]+, Vega-Lite [\d.]+,", library.read_text(encoding="utf-8"))
    licence = (static / speeds.LICENCE).read_text(encoding="utf-8")
    assert "Redistributions in binary form" in licence


def test_only_this_page_loads_it():
    users = [
        path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")
        if re.search(r'src="[^"]*(speeds|vega)\.js', path.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert users == [PAGE]


def test_a_point_is_named_by_mouse_by_keys_and_in_the_table(page):
    page.locator(".speeds-chart svg .mark-symbol path").first.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_contain_text("code")
    expect(tooltip).to_contain_text("driver")
    page.locator(".speeds-chart").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator(".speeds-point").inner_text()
    page.keyboard.press("ArrowRight")
    second = page.locator(".speeds-point").inner_text()
    assert first != second
    for what in ("code", "recorded", "GPU", "driver", "CUDA", "settings"):
        assert what in first
    expect(page.locator(".speeds-chart svg path[stroke='#0072B2']")).to_have_count(1)
    page.locator("tbody tr").nth(3).click()
    assert page.locator(".speeds-point").inner_text() not in (first, second)


def test_the_table_is_sorted_by_what_is_asked_for(page):
    go_to(page, "types=all&records=all&kinds=all")
    page.get_by_role("button", name="TFLOP/s", exact=True).click()
    head = page.locator("th[aria-sort=descending]")
    expect(head).to_have_count(1)
    column = page.locator("th").all_inner_texts().index(head.inner_text()) + 1
    cells = page.locator(f"tbody td:nth-child({column})").all_inner_texts()
    found = [float(cell.replace(",", "")) for cell in cells]
    assert len(found) > 10 and found == sorted(found, reverse=True)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("tbody tr")).to_have_count(count(page))


def test_the_address_keeps_what_is_chosen_and_goes_back_and_forward(page):
    opened = count(page)
    page.locator("select[data-control=y]").select_option("tflops")
    page.locator(".speeds summary").click()
    page.get_by_label("float16", exact=True).check()
    chosen, both = page.url, count(page)
    assert both > opened
    assert chosen.endswith("#y=tflops&types=float32,float16")
    page.go_back()
    page.go_back()
    expect(page.locator("select[data-control=y]")).to_have_value("share")
    assert count(page) == opened
    page.go_forward()
    page.go_forward()
    assert page.url == chosen and count(page) == both
    page.reload()
    expect(page.locator("select[data-control=y]")).to_have_value("tflops")
    assert count(page) == both


@pytest.mark.parametrize(
    "wrong", ["rungs=99", "y=speed", "types=float7", "shape=3x3x3", "gpu=none", "colour=red"]
)
def test_a_wrong_address_says_so_and_shows_what_the_page_opens_with(page, wrong):
    opened = count(page)
    go_to(page, f"x=size&{wrong}")
    expect(page.locator(".speeds-said")).to_contain_text(wrong.partition("=")[0])
    assert count(page) == opened
    go_to(page, "x=rung")
    expect(page.locator(".speeds-said")).to_be_hidden()


def test_a_heading_in_the_address_is_no_selection(page):
    go_to(page, "how-to-read-it")
    expect(page.locator(".speeds-said")).to_be_hidden()


def test_every_question_has_an_answer(page):
    links = page.locator(".speeds-questions a")
    assert links.count() >= 6
    for at in range(links.count()):
        links.nth(at).click()
        expect(links.nth(at)).to_have_attribute("aria-current", "true")
        expect(page.locator(".speeds-chart svg")).to_be_visible()
        assert count(page) >= 5
        assert page.locator(".speeds-said").inner_text() == ""


def test_the_csv_holds_the_points_that_are_shown(page):
    go_to(page, "rungs=10&records=defaults,for-shape&kinds=all")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download them as CSV").click()
    with open(download.value.path(), encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == count(page) > 10
    assert {row["rung"] for row in rows} == {"10_register_banks"}
    for row in rows:
        flop = 2 * int(row["m"]) * int(row["n"]) * int(row["k"]) * int(row["batch"])
        assert float(row["tflops"]) == pytest.approx(flop / float(row["us"]) / 1e6, rel=2e-5)
        assert re.fullmatch(r"[0-9a-f]{16}", row["code"]) and row["driver"] and row["recorded"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_a_phone(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    for fragment in ("x=size", "x=step&records=steps&shape=8192x8192x8192&types=all"):
        go_to(page, fragment)
        expect(page.locator(".speeds-chart svg")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        width = page.locator(".speeds-chart svg").bounding_box()["width"]
        assert width <= page.locator(".speeds-chart").bounding_box()["width"]
    page.locator(".speeds summary").click()
    result = Axe().run(page, context=".speeds, .speeds-questions")
    assert result.response["violations"] == []


def test_with_reduced_data_the_library_waits(browser, address):
    found = browser.new_page()
    found.add_init_script(
        "Object.defineProperty(navigator, 'connection', {value: {saveData: true}})"
    )
    loaded = []
    found.on("request", lambda one: loaded.append(one.url))
    found.goto(address)
    expect(found.locator("tbody tr").first).to_be_visible()
    assert not any("vega" in url for url in loaded)
    found.get_by_role("button", name="Draw the chart").click()
    expect(found.locator(".speeds-chart svg")).to_be_visible()
    found.close()


def test_it_works_when_opened_from_disk(browser):
    found = browser.new_page()
    found.goto((SITE / PAGE).as_uri())
    expect(found.locator(".speeds-chart svg")).to_be_visible()
    found.close()
