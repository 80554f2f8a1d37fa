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

import pytest
from playwright.sync_api import expect, sync_playwright

from gemmlab.folders import NOTEBOOKS, ROOT

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
if not CHROMIUM and os.environ.get("GEMMLAB_REQUIRE_BROWSER"):
    raise RuntimeError("GEMMLAB_REQUIRE_BROWSER is set, and there is no Chromium.")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs a Chromium")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SECOND = 1000  # Playwright counts milliseconds
RUN_S = 300  # at most, for a cell on a busy machine
NAME = "03_shared_memory"
CHANGES = "TILE", "ArrowLeft"  # slider and key
BREAKS, REASON = ("BK", "Home"), "leaves threads without work"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a JupyterLab on a copy of the notebook, which a reader's run changes."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copy(NOTEBOOKS / f"{NAME}.ipynb", folder)
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
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}",
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
    page.goto(f"{address}/lab/tree/{name}.ipynb?token={token}&reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
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
    found = page.locator(selector).first
    found.wait_for()
    return found


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
