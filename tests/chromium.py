"""Where a Chromium is, and how it is started: for the tests that watch pages in one."""

import os
import shutil

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
if not CHROMIUM and os.environ.get("GEMMLAB_REQUIRE_BROWSER"):
    raise RuntimeError("GEMMLAB_REQUIRE_BROWSER is set, and there is no Chromium.")
