"""What a reader does on a page: search, unfold, follow a link into a fold, meet a word."""

import re

import pytest
from playwright.sync_api import expect

NOTEBOOK = "notebooks/05_thread_tile_2d.html"
FOLDED = "#the-whole-file-line-by-line"  # a section below "Going deeper"


def fold(page):
    return page.locator(f"{FOLDED} > details")


def test_the_search_finds_a_word_and_leads_there(page):
    page.goto("index.html")
    box = page.get_by_role("textbox", name=re.compile("Search")).first
    box.fill("swizzle")
    box.press("Enter")
    page.wait_for_url("**/search.html?q=swizzle**")
    results = page.locator("#search-results li a")
    results.first.wait_for()
    hrefs = results.evaluate_all("all => all.map(link => link.getAttribute('href'))")
    assert any("07_bank_conflicts" in href for href in hrefs)
    results.first.click()
    expect(page.locator("h1")).to_be_visible()
    assert "search.html" not in page.url


def test_a_folded_section_opens_by_keyboard(page):
    page.goto(NOTEBOOK)
    summary = fold(page).locator("> summary")
    expect(fold(page)).not_to_have_attribute("open", "")
    picture = fold(page).locator("pre, table").first
    expect(picture).to_be_hidden()
    summary.focus()
    page.keyboard.press("Enter")
    expect(picture).to_be_visible()
    page.keyboard.press("Space")
    expect(picture).to_be_hidden()


def test_a_folded_section_opens_when_it_is_linked_to(page):
    page.goto(f"{NOTEBOOK}{FOLDED}")
    expect(fold(page).locator("pre, table").first).to_be_visible()
    expect(page.locator("#registers-against-occupancy > details > summary")).to_be_visible()
    assert page.locator("#registers-against-occupancy > details").get_attribute("open") is None


def test_a_link_of_the_contents_opens_a_fold(page):
    page.goto(NOTEBOOK)
    page.locator(f".toc-tree a[href='{FOLDED}']").click()
    expect(fold(page).locator("pre, table").first).to_be_visible()


def test_everything_is_open_on_paper(page):
    page.goto(NOTEBOOK)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    closed = page.locator("article details:not([open])")
    assert closed.count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert closed.count() > 5


@pytest.mark.parametrize("way", ["pointer", "keyboard"])
def test_a_word_of_the_glossary_shows_its_sentence(page, way):
    page.goto(NOTEBOOK)
    word = page.locator("article a.term").first
    meaning = page.locator(f"#{word.get_attribute('aria-describedby')}")
    expect(meaning).to_be_hidden()
    if way == "pointer":
        word.hover()
    else:
        word.focus()
    expect(meaning).to_be_visible()
    assert len(meaning.inner_text()) > 20
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()


def test_a_column_of_speeds_is_sorted_by_its_head(page):
    page.goto("speeds.html")
    column = page.locator("table.sortable thead th").all_inner_texts().index("TFLOP/s") + 1
    for order, way in (("descending", True), ("ascending", False)):
        page.get_by_role("button", name="TFLOP/s").click()
        cells = page.locator(f"table.sortable tbody td:nth-child({column})").all_inner_texts()
        numbers = [float(cell) for cell in cells]
        assert len(numbers) > 500 and numbers == sorted(numbers, reverse=way)
        expect(page.locator(f"th[aria-sort={order}]")).to_have_text("TFLOP/s")
    page.get_by_role("button", name="M×N×K").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("M×N×K")


def test_a_line_of_a_kernel_can_be_linked_to(page):
    page.goto("kernels/05_thread_tile_2d.cu.html#L-44")
    line = page.locator("#L-44")
    assert 0 <= line.evaluate("line => line.getBoundingClientRect().top") < 1000
