"""Listings: numbered as in their file, and the same words as text and as a page."""

import html
import re

from gemmlab.report import Listing


def shown(page: str) -> list[str]:
    return html.unescape(re.sub("<[^>]*>", "", page)).split("\n")


def test_lines_carry_their_numbers_and_the_text_does_not():
    listing = Listing("int a;\n\nint b;", "cuda", (9, 10, 11))
    assert repr(listing) == " 9  int a;\n10  \n11  int b;".replace("10  \n", "10\n")
    assert [line.rstrip() for line in shown(listing._repr_html_())] == repr(listing).split("\n")
    assert listing.text == "int a;\n\nint b;"
