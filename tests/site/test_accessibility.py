"""Structure and contrast of representative pages, light and dark, as axe-core finds them."""

import pytest
from axe_playwright_python.sync_playwright import Axe

# A page of each kind.
PAGES = (
    "index.html", "notebooks/05_thread_tile_2d.html", "kernels/05_thread_tile_2d.cu.html",
    "speeds.html", "glossary.html", "search.html?q=swizzle", "nsight_compute.html", "teaching.html",
)  # fmt: skip
EVERY = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
CONTRAST = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
RULES = {"light": EVERY, "dark": CONTRAST}  # in the dark only colours are others
MOST_ROWS = 20  # of a table: all are made alike


def violations(page, rules=EVERY) -> list[str]:
    """What axe-core finds: rule, how often, where first, and why."""
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    broken = Axe().run(page, options=options).response["violations"]
    return [
        f"{rule['id']} ×{len(rule['nodes'])}: {rule['nodes'][0]['target'][0]}: "
        f"{rule['nodes'][0]['failureSummary']}"
        for rule in broken
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(page, name, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(name)
    page.wait_for_load_state("networkidle")
    page.evaluate(
        """rows => {
            document.querySelectorAll('article details').forEach(fold => { fold.open = true });
            document.querySelectorAll(`tbody tr:nth-child(n + ${rows})`).forEach(e => e.remove());
        }""",
        MOST_ROWS,
    )
    assert violations(page, RULES[scheme]) == []


def test_poor_contrast_and_a_picture_without_a_text_are_found(page):
    page.goto("index.html")
    page.evaluate(
        """() => document.querySelector('article').insertAdjacentHTML('beforeend',
            '<p style="color: #ccc; background: #fff">pale</p><img src="_static/logo.svg">')"""
    )
    words = " ".join(violations(page))
    assert "color-contrast" in words and "image-alt" in words
