"""Sliders and players on their pages: moved by keyboard and by mouse, as readers do."""

import re

import pytest
from playwright.sync_api import Page, expect

LABS = "03_shared_memory", "18_persistent"
RING = "17_warp_specialized"


def widget_on(page: Page, name: str, kind: str):
    """Sliders or a player of a page, with all that is folded open."""
    page.goto(f"notebooks/{name}.html")
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    widget = page.locator(f".gemmlab-widget[data-name='{name}_{kind}']")
    widget.scroll_into_view_if_needed()
    return widget


def lab_on(page: Page, name: str):
    return widget_on(page, name, "lab")


def slider(lab, name: str):
    return lab.get_by_role("slider", name=re.compile(f"^{name}"))


def status(lab):
    return lab.locator(".gemmlab-status")


def source(place):
    return place.locator("img").get_attribute("src")


def has_answered(lab, before: str) -> None:
    """Wait until the lab shows another picture than before, or says why there is none."""
    other = lab.page.locator(f"img:not([src='{before}'])")
    refused = status(lab).filter(has_text="No picture")
    expect(lab.locator("figure:visible").filter(has=other).or_(refused)).to_be_visible()


@pytest.mark.parametrize("name", LABS)
def test_every_slider_moves_by_keyboard(page, name):
    lab = lab_on(page, name)
    first = source(lab)
    for slider in lab.get_by_role("slider").all():
        at, last = int(slider.input_value()), int(slider.get_attribute("max"))
        there, back = ("ArrowRight", "ArrowLeft") if at < last else ("ArrowLeft", "ArrowRight")
        output = slider.locator("xpath=following-sibling::output")
        value = output.inner_text()
        slider.press(there)
        has_answered(lab, first)
        expect(output).not_to_have_text(value)
        assert slider.get_attribute("aria-valuetext") == output.inner_text()
        slider.press(back)
        expect(lab.locator("img")).to_have_attribute("src", first)
        expect(status(lab)).to_have_text("")
        expect(output).to_have_text(value)


def test_a_slider_moves_by_mouse_and_its_words_and_numbers_follow(page):
    lab = lab_on(page, LABS[0])
    moved = slider(lab, "TILE")
    number = lab.get_by_role("row", name=re.compile("^threads per block"))
    expect(number).to_contain_text("1,024")
    moved.scroll_into_view_if_needed()
    box = moved.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    assert moved.input_value() == "0"
    expect(lab.locator("figcaption")).to_contain_text("A block computes 8 × 8 elements of C")
    expect(number).to_contain_text("64")
    alt = lab.locator("img").get_attribute("alt")
    assert lab.locator("figcaption").inner_text().startswith(alt)


def test_settings_that_do_not_go_together_have_a_way_out(page):
    lab = lab_on(page, LABS[0])
    slider(lab, "BK").press("Home")
    expect(status(lab)).to_contain_text("leaves threads without work")
    expect(status(lab)).to_contain_text("from TILE=32 to TILE=8.")
    expect(lab.locator("figure")).to_be_hidden()
    expect(lab.locator("label", has_text=re.compile("^TILE"))).to_contain_text("→ 8")
    lab.get_by_role("button", name="Use TILE=8").press("Enter")
    expect(lab.locator("figcaption")).to_contain_text("A block computes 8 × 8 elements of C")
    expect(status(lab)).to_have_text("")
    expect(lab.get_by_role("button")).to_have_count(0)
    expect(slider(lab, "TILE")).to_be_focused()


def test_settings_that_this_page_does_not_have_have_a_way_out_too(page):
    lab = lab_on(page, LABS[1])
    first = source(lab)
    slider(lab, "DTYPE").press("End")
    has_answered(lab, first)
    slider(lab, "CLUSTER").press("Home")
    expect(status(lab)).to_contain_text("go together, but this page has no picture of them")
    lab.get_by_role("button", name=re.compile("^Use ")).click()
    expect(lab.locator("figure")).to_be_visible()
    expect(slider(lab, "CLUSTER")).to_have_attribute("aria-valuetext", "1")


def test_little_is_fetched_before_a_slider_is_touched(page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"notebooks/{LABS[0]}.html")
    lab = page.locator(f"[data-name='{LABS[0]}_lab']")
    lab.scroll_into_view_if_needed()
    expect(lab.locator("img")).to_have_js_property("complete", True)
    assert len([url for url in asked if f"{LABS[0]}_lab" in url]) == 1  # the first picture
    with page.expect_request(f"**/{LABS[0]}_lab.js"):
        slider(lab, "TILE").focus()


def test_a_step_player_steps_plays_and_stops(page):
    player = widget_on(page, LABS[0], "step_player")
    frame, caption = slider(player, "frame"), player.locator("figcaption")
    first = source(player)
    player.get_by_role("button", name="Next").click()
    expect(caption).to_contain_text("Frame 2 of")
    expect(player.locator("img")).not_to_have_attribute("src", first)
    player.get_by_role("button", name="Back").press("Enter")
    expect(player.locator("img")).to_have_attribute("src", first)
    frame.press("End")
    last = int(frame.get_attribute("max")) + 1
    expect(caption).to_contain_text(f"Frame {last} of {last}")
    player.get_by_role("button", name="Play").click()  # from the first again
    expect(caption).to_contain_text("Frame 1 of")
    expect(caption).to_contain_text("Frame 2 of")
    player.get_by_role("button", name="Pause").click()
    expect(player.get_by_role("button", name="Play")).to_be_visible()


def test_a_ring_player_has_the_moments_of_each_number_of_stages(page):
    player = widget_on(page, RING, "ring_player")
    moment, caption = slider(player, "moment"), player.locator("figcaption")
    moment.press("End")
    expect(caption).to_contain_text(re.compile(r"Moment (\d+) of \1:"))
    of_four = caption.inner_text()
    slider(player, "STAGES").press("Home")
    expect(slider(player, "STAGES")).to_have_attribute("aria-valuetext", "2")
    expect(caption).not_to_have_text(of_four)
    expect(caption).to_contain_text(re.compile(r"Moment (\d+) of \1:"))


def test_whoever_asks_for_less_motion_steps_by_hand(page):
    page.emulate_media(reduced_motion="reduce")
    player = widget_on(page, LABS[0], "step_player")
    expect(player.get_by_role("button", name="Next")).to_be_visible()
    expect(player.get_by_role("button", name="Play")).to_be_hidden()
