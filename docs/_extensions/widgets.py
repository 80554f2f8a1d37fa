"""The scripts of sliders and players, on the pages that have some."""

STYLE = "lab.css"
SHARED = "lazy_data.js"
OF = {"gemmlab-lab": ("lab_rules.js", "lab.js"), "gemmlab-player": ("player.js",)}


def add_scripts(app, page, template, context, doctree):
    body = context.get("body", "")
    wanted = [script for kind, scripts in OF.items() if f'class="{kind}"' in body
              for script in scripts]  # fmt: skip
    if wanted:
        app.add_css_file(STYLE)
    for script in (SHARED, *wanted) if wanted else ():
        app.add_js_file(script, loading_method="defer")


def setup(app):
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
