"""What a warp does together with a matrix: fragments, mma, ldmatrix."""
