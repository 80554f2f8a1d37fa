"""The page of speeds in Chromium: chart, keys, table, address. `make test-site` builds it first."""

import csv
import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from gemmlab.site import speeds

PAGE = "speeds.html"
FITS = """() => {
    const drawn = document.querySelector(".speeds-chart svg");
    return drawn && drawn.clientWidth > 0 && drawn.clientWidth <= drawn.closest(".speeds-chart").clientWidth;
}"""  # noqa: E501


@pytest.fixture
def chart(page):
    """The page as it opens."""
    page.goto(PAGE)
    expect(page.locator(".speeds-chart svg")).to_be_visible()
    return page


def count(page) -> int:
    words = page.locator(".speeds-actions span").inner_text()
    return int(words.split(" ")[0].replace(",", ""))


def go_to(page, fragment: str) -> None:
    page.goto(f"{page.url.partition('#')[0]}#{fragment}")


def test_the_library_is_vendored_with_its_licence(site):
    static = site / "_static"
    text = (static / speeds.DATA).read_text(encoding="utf-8")
    data = json.loads(text.partition(" = ")[2].removesuffix(";\n"))
    assert len(text.encode()) < 1_000_000
    library = static / data["library"]
    assert library.stat().st_size == data["library_bytes"]
    assert re.match(r"/\*! Vega [\d.]+, Vega-Lite [\d.]+,", library.read_text(encoding="utf-8"))
    licence = (static / speeds.LICENCE).read_text(encoding="utf-8")
    assert "Redistributions in binary form" in licence


def test_only_this_page_loads_it(site):
    users = [
        path.relative_to(site).as_posix() for path in site.rglob("*.html")
        if re.search(r'src="[^"]*(speeds|vega)\.js', path.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert users == [PAGE]


def test_a_point_is_named_by_mouse_by_keys_and_in_the_table(chart):
    chart.locator(".speeds-chart svg .mark-symbol path").first.hover(force=True)
    tooltip = chart.locator("#vg-tooltip-element")
    expect(tooltip).to_contain_text("code")
    expect(tooltip).to_contain_text("driver")
    chart.locator(".speeds-chart").focus()
    chart.keyboard.press("ArrowRight")
    first = chart.locator(".speeds-point").inner_text()
    chart.keyboard.press("ArrowRight")
    second = chart.locator(".speeds-point").inner_text()
    assert first != second
    for what in ("code", "recorded", "GPU", "driver", "CUDA", "settings"):
        assert what in first
    expect(chart.locator(".speeds-chart svg path[stroke='#0072B2']")).to_have_count(1)
    chart.locator("tbody tr").nth(3).click()
    assert chart.locator(".speeds-point").inner_text() not in (first, second)


def test_the_table_is_sorted_by_what_is_asked_for(chart):
    go_to(chart, "types=all&records=all&kinds=all")
    chart.get_by_role("button", name="TFLOP/s", exact=True).click()
    head = chart.locator("th[aria-sort=descending]")
    expect(head).to_have_count(1)
    column = chart.locator("th").all_inner_texts().index(head.inner_text()) + 1
    cells = chart.locator(f"tbody td:nth-child({column})").all_inner_texts()
    found = [float(cell.replace(",", "")) for cell in cells]
    assert len(found) > 10 and found == sorted(found, reverse=True)
    chart.get_by_role("button", name="Show all").click()
    expect(chart.locator("tbody tr")).to_have_count(count(chart))


def test_the_address_keeps_what_is_chosen_and_goes_back_and_forward(chart):
    opened = count(chart)
    chart.locator("select[data-control=y]").select_option("tflops")
    chart.locator(".speeds summary").click()
    chart.get_by_label("float16", exact=True).check()
    chosen, both = chart.url, count(chart)
    assert both > opened
    assert chosen.endswith("#y=tflops&types=float32,float16")
    chart.go_back()
    chart.go_back()
    expect(chart.locator("select[data-control=y]")).to_have_value("share")
    assert count(chart) == opened
    chart.go_forward()
    chart.go_forward()
    assert chart.url == chosen and count(chart) == both
    chart.reload()
    expect(chart.locator("select[data-control=y]")).to_have_value("tflops")
    assert count(chart) == both


def test_a_family_is_chosen_at_once(chart):
    chart.locator(".speeds summary").click()
    chart.get_by_role("button", name="tiles of a warp").click()
    assert chart.url.endswith("#rungs=08,09")
    chart.get_by_role("button", name="register banks").click()
    assert chart.url.endswith("#rungs=08,09,10,11")
    chart.get_by_role("button", name="tiles of a warp").click()
    assert chart.url.endswith("#rungs=10,11")


@pytest.mark.parametrize(
    "wrong", ["rungs=99", "y=speed", "types=float7", "shape=3x3x3", "gpu=none", "colour=red", "y=%"]
)
def test_a_wrong_address_says_so_and_shows_what_the_page_opens_with(chart, wrong):
    opened = count(chart)
    go_to(chart, f"x=size&{wrong}")
    expect(chart.locator(".speeds-said")).to_contain_text(wrong.partition("=")[0])
    assert count(chart) == opened
    go_to(chart, "x=rung")
    expect(chart.locator(".speeds-said")).to_be_hidden()


def test_a_heading_in_the_address_is_no_selection(chart):
    go_to(chart, "how-to-read-it")
    expect(chart.locator(".speeds-said")).to_be_hidden()


def test_every_question_has_an_answer(chart):
    links = chart.locator(".speeds-questions a")
    assert links.count() >= 6
    for at in range(links.count()):
        links.nth(at).click()
        expect(links.nth(at)).to_have_attribute("aria-current", "true")
        expect(chart.locator(".speeds-chart svg")).to_be_visible()
        assert count(chart) >= 5
        assert chart.locator(".speeds-said").inner_text() == ""


def test_the_csv_holds_the_points_that_are_shown(chart):
    go_to(chart, "rungs=10&records=defaults,for-shape&kinds=all")
    with chart.expect_download() as download:
        chart.get_by_role("button", name="Download them as CSV").click()
    with open(download.value.path(), encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == count(chart) > 10
    assert {row["rung"] for row in rows} == {"10_register_banks"}
    for row in rows:
        flop = 2 * int(row["m"]) * int(row["n"]) * int(row["k"]) * int(row["batch"])
        assert float(row["tflops"]) == pytest.approx(flop / float(row["us"]) / 1e6, rel=2e-5)
        assert re.fullmatch(r"[0-9a-f]{16}", row["code"]) and row["driver"] and row["recorded"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_a_phone(chart, scheme):
    chart.emulate_media(color_scheme=scheme)
    chart.set_viewport_size({"width": 390, "height": 800})
    for fragment in ("x=size", "x=step&records=steps&shape=8192x8192x8192&types=all"):
        go_to(chart, fragment)
        expect(chart.locator(".speeds-chart svg")).to_be_visible()
        assert chart.evaluate("document.documentElement.scrollWidth") == 390
        chart.wait_for_function(FITS)
    chart.locator(".speeds summary").click()
    result = Axe().run(chart, context=".speeds, .speeds-questions")
    assert result.response["violations"] == []


def test_with_reduced_data_the_library_waits(page):
    saving = "Object.defineProperty(navigator, 'connection', {value: {saveData: true}})"
    page.add_init_script(saving)
    loaded = []
    page.on("request", lambda one: loaded.append(one.url))
    page.goto(PAGE)
    expect(page.locator("tbody tr").first).to_be_visible()
    assert not any("vega" in url for url in loaded)
    page.get_by_role("button", name="Draw the chart").click()
    expect(page.locator(".speeds-chart svg")).to_be_visible()


def test_it_works_when_opened_from_disk(site, browser):
    page = browser.new_page()
    page.goto((site / PAGE).as_uri())
    expect(page.locator(".speeds-chart svg")).to_be_visible()
    page.close()
