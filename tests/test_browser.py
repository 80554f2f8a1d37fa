"""The notebooks as a reader meets them: JupyterLab in a real browser, sliders moved by keyboard.

Needs a Chromium; `.ci/run` installs one and sets GEMMLAB_REQUIRE_BROWSER, so that it never skips
there. Screenshots are kept in the folder that GEMMLAB_SCREENSHOTS names, if it names one.
"""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from chromium import CHROMIUM, FLAGS
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect, sync_playwright

from gemmlab import ladder
from gemmlab.folders import NOTEBOOKS, ROOT

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs a Chromium")

SECOND = 1000  # Playwright counts milliseconds
RUN_S = 300  # at most, for a cell on a busy machine
NAME = "03_shared_memory"
CHANGES = "TILE", "ArrowLeft"  # slider and key
BREAKS, REASON = ("BK", "Home"), "leaves threads without work"

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
LABS = ("14_wmma",)  # six controls, and the longest labels
USABLE = 75  # pixels at least, for the track of a slider of five values
HANDLE, TRACK, LABEL = ".noUi-handle", ".noUi-target", ".gemmlab-label"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a JupyterLab on copies of the notebooks, which a reader's run changes."""
    root = tmp_path_factory.mktemp("lab")
    folder = root / "notebooks"
    folder.mkdir()
    for name in ("index", NAME):
        shutil.copy(NOTEBOOKS / f"{name}.ipynb", folder)
    for name in LABS:
        cells = [new_code_cell(f'import gemmlab as gl\ngl.lab("{name}")')]
        nbformat.write(new_notebook(cells=cells, metadata=KERNEL), folder / f"lab_{name}.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": str(ROOT / "requirements" / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "GEMMLAB_DEVICE": "simulator",
    }
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--ip=127.0.0.1",
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
        f"--FileContentsManager.preferred_dir={folder}", "--allow-root",
        "--log-level=ERROR",
        "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=environment, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api?token={token}", process)
        yield address, token
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, process) -> None:
    for _ in range(240):
        assert process.poll() is None, "JupyterLab ended"
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    pytest.fail("JupyterLab does not answer")


@pytest.fixture
def page(tmp_path):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1300})
        page.set_default_timeout(RUN_S * SECOND)
        expect.set_options(timeout=RUN_S * SECOND)
        yield page
        browser.close()


def open_notebook(page, server, name: str) -> None:
    address, token = server
    page.goto(f"{address}/lab/tree/notebooks/{name}.ipynb?token={token}&reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    wait_for_kernel(page)


def wait_for_kernel(page) -> None:
    """Until that of the notebook in front is idle; a server does not end while one starts."""
    page.wait_for_function(
        """() => {
            const session = window.jupyterapp.shell.currentWidget?.context?.sessionContext;
            return session?.isReady && session.session?.kernel?.status === 'idle';
        }"""
    )


def run_cell(page, source: str) -> None:
    """Run the first code cell with this in its source, and wait for its end."""
    errors = page.evaluate(
        """async (source) => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            const at = notebook.widgets.findIndex(cell =>
                cell.model.type === 'code' && cell.model.sharedModel.getSource().includes(source));
            notebook.activeCellIndex = at;
            notebook.deselectAll();
            await window.jupyterapp.commands.execute('notebook:run-cell');
            return notebook.widgets[at].model.sharedModel.getOutputs()
                .filter(output => output.output_type === 'error')
                .map(output => `${output.ename}: ${output.evalue}`);
        }""",
        source,
    )
    assert not errors, errors


def find(page, source: str, selector: str):
    """The first such element of the cell with this source: only cells in view are drawn."""
    page.evaluate(
        """async (source) => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            const at = notebook.widgets.findIndex(
                cell => cell.model.sharedModel.getSource().includes(source));
            notebook.activeCellIndex = at;
            await notebook.scrollToItem(at, 'start');
        }""",
        source,
    )
    element = page.locator(selector).first
    element.wait_for()
    return element


def keep(page, name: str) -> None:
    folder = os.environ.get("GEMMLAB_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_a_slider_changes_the_picture_and_an_illegal_choice_is_answered(server, page):
    open_notebook(page, server, NAME)
    for cell in ("import gemmlab as gl", "gl.lab("):  # nbval runs the others
        run_cell(page, cell)
    lab = find(page, "gl.lab(", ".gemmlab-lab")
    lab.scroll_into_view_if_needed()
    picture, status = lab.locator("img").first, lab.locator('[role="status"]')
    picture.wait_for()
    keep(page, f"{NAME}-default")

    def press(slider: str, key: str) -> None:
        lab.locator(f".gemmlab-{slider} .noUi-handle").focus()
        page.keyboard.press(key)

    before = picture.get_attribute("src")
    press(*CHANGES)
    page.wait_for_function(
        "([image, before]) => image.src !== before && image.complete && image.naturalWidth > 500",
        arg=[picture.element_handle(), before],
    )
    keep(page, f"{NAME}-moved")

    press(*BREAKS)
    expect(status).to_contain_text(REASON)
    expect(picture).to_be_hidden()
    keep(page, f"{NAME}-refused")
    lab.get_by_role("button", name=re.compile("^Use ")).click()
    expect(picture).to_be_visible()
    expect(status).to_have_text("")


def test_the_start_page_is_the_index_and_a_click_opens_a_rung(server, page):
    address, token = server
    page.set_viewport_size({"width": 1400, "height": 1000})
    page.goto(f"{address}/?token={token}")
    page.wait_for_url("**/lab/tree/notebooks/index.ipynb")
    link = page.locator(".jp-OutputArea table").get_by_role("link", name="03 Shared-memory tiling")
    link.wait_for()
    pictures = page.locator(".jp-OutputArea table img")
    widths = pictures.evaluate_all("all => all.map(image => image.naturalWidth)")
    assert len(widths) > 10 and min(widths) > 100
    names = page.locator(".jp-DirListing-itemText")
    expect(names).to_have_count(2 + len(LABS))
    cut_off = names.evaluate_all("all => all.filter(name => name.scrollWidth > name.clientWidth)")
    assert not cut_off
    keep(page, "index")
    wait_for_kernel(page)
    link.click()
    page.wait_for_function(
        "name => window.jupyterapp.shell.currentWidget?.context?.path.endsWith(name)",
        arg=f"{NAME}.ipynb",
    )
    wait_for_kernel(page)


def boxes(lab, selector: str) -> list[dict[str, float]]:
    """Where what can be seen of it lies in the window: x, y, width and height in pixels."""
    corners = [element.bounding_box() for element in lab.locator(selector).all()]
    return [box for box in corners if box and box["width"] and box["height"]]


@pytest.mark.parametrize("name", LABS)
def test_sliders_picture_and_caption_fit_one_window(server, page, name):
    page.set_viewport_size({"width": 1400, "height": 1000})
    open_notebook(page, server, f"lab_{name}")
    run_cell(page, "gl.lab(")
    lab = find(page, "gl.lab(", ".gemmlab-lab")
    parameters = len(ladder.find(name).parameters)
    lab.locator("img").first.wait_for()
    for side in ("open", "closed"):
        lab.locator(HANDLE).first.wait_for()
        page.wait_for_timeout(SECOND)  # the layout settles
        keep(page, f"{name}-1400-files-{side}")
        seen = page.locator(".jp-WindowedPanel-outer").first.bounding_box()
        bottom = seen["y"] + seen["height"]
        shown = [*boxes(lab, TRACK), *boxes(lab, LABEL), *boxes(lab, "img")]
        shown += boxes(lab, ".gemmlab-caption")
        assert len(shown) == 2 * parameters + 3  # the GPU has a label and no slider
        assert min(box["width"] for box in boxes(lab, TRACK)) >= USABLE
        for box in shown:
            assert seen["y"] <= box["y"] and box["y"] + box["height"] <= bottom, side
            assert box["x"] + box["width"] <= seen["x"] + seen["width"], side
        page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
