"""Code that only notebook 26 needs: accumulators in tensor memory."""
