"""How `make notebooks` executes and writes notebooks: the same bytes from the same results."""

c = get_config()  # noqa: F821  (Jupyter defines it)

c.ExecutePreprocessor.kernel_name = "python3"
c.ExecutePreprocessor.timeout = 600
# No widget state and no execution times in the file.
c.ExecutePreprocessor.store_widget_state = False
c.ExecutePreprocessor.record_timing = False
# Prints of one cell are one output, however they arrived.
c.CoalesceStreamsPreprocessor.enabled = True


def drop_widget_views(notebook, resources):
    """Without the state that is not stored, a view is an error message and a random number."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    return notebook, resources


c.NotebookExporter.preprocessors = [drop_widget_views]

# Of the notebook's metadata keep the kernel and the language, not the version of Python that
# happened to run; cells keep their tags.
c.ClearMetadataPreprocessor.enabled = True
c.ClearMetadataPreprocessor.clear_cell_metadata = False
c.ClearMetadataPreprocessor.preserve_nb_metadata_mask = {"kernelspec", ("language_info", "name")}
