"""What one notebook alone needs: a package each, named as its notebook.

A lesson imports the core and lessons before it. The core knows no lesson.
"""
