"""What one notebook alone needs: a package each, named as the notebook. The core knows none of them."""
