"""The series as a static site: what Sphinx builds it from, and what its scripts read.

`python -m gemmlab.site` (`make site`) is build. The sources of pages are made in pages/. widgets
has sliders and players of a page, and writes the files from which they answer: interactive finds
them in the notebooks, labs and players make their HTML, lab_views, player_frames and
constraint_tables what they show, webp draws it, cache keeps it. hosted makes copies of the
notebooks for Colab, and links to it and to Binder. tables/ makes the tables of pages of docs/.
"""
