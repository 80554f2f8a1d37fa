"""How Sphinx makes the site out of build/site-source, which `python -m tools.site` fills."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from gemmlab._version import __version__

project = "GEMM Lab"
author = "The GEMM Lab developers"
version = release = __version__
language = "en"

extensions = ["myst_nb", "sphinx_design", "sphinxext.opengraph", "folds", "terms"]
templates_path = ["_templates"]
exclude_patterns = []
smartquotes = False

# Notebooks are shown as they were committed: nothing is executed.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["attrs_block", "attrs_inline", "deflist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "GEMM Lab"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"}), ("widgets.js", {"defer": "defer"})]
html_logo = html_favicon = "_static/logo.svg"
html_copy_source = False
html_scaled_image_link = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#00527F", "color-brand-content": "#00527F"},
    "dark_css_variables": {"color-brand-primary": "#7CC4EE", "color-brand-content": "#7CC4EE"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"

# Where the site is published, with a slash at its end. Only the cards that other sites show of a
# page need it: their addresses must be whole. All links are relative.
html_baseurl = os.environ.get("GEMMLAB_SITE_URL", "")
ogp_site_url = html_baseurl
ogp_site_name = project
ogp_description_length = 160
ogp_social_cards = {
    "image": "_static/logo.png",
    "image_mini": "logo.png",
    "line_color": "#0072B2",
    "font": "DejaVu Sans",  # which has all signs of the titles
    "enable": bool(html_baseurl),
}


def setup(app):
    # Pictures that nobody has scrolled to yet are not loaded.
    app.connect("builder-inited", lambda app: app.env.settings.update(image_loading="lazy"))
