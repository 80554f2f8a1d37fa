"""How `make lab` starts JupyterLab. A setting in ~/.jupyter or on the command line wins."""

import os
import sys
from pathlib import Path

checkout = Path(__file__).resolve().parents[2]
has_display = sys.platform in ("darwin", "win32") or bool(
    os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
)

c = get_config()  # noqa: F821  (Jupyter defines it)

# The file browser opens on the notebooks; kernels/ and results/ are one click above.
c.ServerApp.root_dir = str(checkout)
c.FileContentsManager.preferred_dir = str(checkout / "notebooks")
# Beside it the series' own index, in place of the launcher.
c.LabApp.default_url = "/lab/tree/notebooks/index.ipynb"

# A container's only user is often root.
c.ServerApp.allow_root = True
# Without a display the address is printed, and no text browser takes over the terminal.
c.ServerApp.open_browser = has_display
# Of the start-up messages only the address matters.
c.Application.log_level = "WARN"
# In milliseconds, and no longer than the time between two pings, or Tornado warns.
c.ServerApp.tornado_settings = {"ws_ping_timeout": 30_000}

# No request leaves the machine at start: no news, no check for updates, no extension index.
# (labconfig/page_config.json beside this file turns off the question about news, and
# default_setting_overrides.json there leaves the file browser's width to the names.)
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.extension_manager = "readonly"
