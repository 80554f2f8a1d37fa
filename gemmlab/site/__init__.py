"""The series as a static site: what Sphinx and a browser take in place of notebooks and widgets."""
