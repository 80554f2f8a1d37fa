"""The series as a static site: sources for Sphinx, and data for its scripts.

`python -m tools.site` (`make site`) runs build. The sources of pages are made in pages/.
interactive finds sliders and players in the notebooks, widgets draws all that they can show. hosted
has links to Colab and Binder. tables/ makes the tables of docs/.
"""
