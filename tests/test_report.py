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


def test_a_comment_over_several_lines_keeps_one_number_a_line():
    listing = Listing("/* one\n   two */\nint a;", "cuda", (1, 2, 3))
    assert shown(listing._repr_html_()) == ["1  /* one", "2     two */", "3  int a;"]
