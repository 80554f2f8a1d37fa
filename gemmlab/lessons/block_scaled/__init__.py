"""Code that only notebook 27 needs: block scales in tensor memory."""
