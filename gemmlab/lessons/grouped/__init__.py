"""What notebook 24 alone needs: products of different heights in one launch."""
