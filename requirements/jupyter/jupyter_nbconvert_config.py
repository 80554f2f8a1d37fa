"""How `make notebooks` executes and writes notebooks: the same bytes from the same results."""

import base64
import hashlib
import io
from pathlib import Path

import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from PIL import Image

c = get_config()  # noqa: F821  (Jupyter defines it)

c.ExecutePreprocessor.kernel_name = "python3"
c.ExecutePreprocessor.timeout = 600
# No widget state and no execution times in the file.
c.ExecutePreprocessor.store_widget_state = False
c.ExecutePreprocessor.record_timing = False
# Prints of one cell are one output, however they arrived: below, once it has been executed.
c.CoalesceStreamsPreprocessor.enabled = True


def drop_widget_views(notebook, resources):
    """Without the state that is not stored, a view is an error message and a random number."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    return notebook, resources


def pack_pictures(notebook, resources):
    """A picture that looks as it did in the file keeps its bytes: a clone has all that ever were.

    Another one is packed as tightly as can be, which takes too long while somebody waits for it.
    """
    file = Path(resources["metadata"]["path"], resources["metadata"]["name"] + ".ipynb")
    before = {
        look(data["image/png"]): data["image/png"] for data in pictures(nbformat.read(file, 4))
    }
    for data in pictures(notebook):
        data["image/png"] = before.get(look(data["image/png"])) or packed(data["image/png"])
    return notebook, resources


def pictures(notebook):
    """The data of each output that has a PNG, in base64."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                yield output["data"]


def look(png):
    """A fingerprint of the pixels."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    return image.size, hashlib.sha256(image.tobytes()).digest()


def packed(png):
    smaller = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(png))).save(smaller, format="png", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode()


c.NotebookExporter.preprocessors = [
    CoalesceStreamsPreprocessor, drop_widget_views, pack_pictures,
]  # fmt: skip

# Of the notebook's metadata keep the kernel and the language, not the version of Python that
# happened to run; cells keep their tags.
c.ClearMetadataPreprocessor.enabled = True
c.ClearMetadataPreprocessor.clear_cell_metadata = False
c.ClearMetadataPreprocessor.preserve_nb_metadata_mask = {"kernelspec", ("language_info", "name")}
