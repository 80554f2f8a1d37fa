"""The series as a static site: what Sphinx builds it from, and what its scripts read.

`python -m gemmlab.site` (`make site`) is build. The sources of pages are made in pages/.
interactive finds sliders and players in the notebooks, widgets draws all that they can show. hosted
makes copies of the notebooks for Colab, and links to it and to Binder. tables/ makes the tables of
docs/.
"""
