"""Code that only notebook 24 needs: products of different heights in one launch."""
